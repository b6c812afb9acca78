// A Hugging Face folder against values that another program computed for it.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text/text.h"
#include "checkpoint/safetensors.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"
#include "train/verify/difference.h"
#include "train/verify/forward.h"
#include "train/verify/golden_names.h"
#include "train/verify/verify.h"
#include "train/weights/stored_tensors.h"

namespace tessera {
namespace {

// Errors below this look like float32 rounding somewhere inside the reference.
constexpr double kFloat32Inside = 1e-6;

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  require_config(in.good(), "cannot read '{}'", path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<double> read_values(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo& info = file.at(name);
  std::vector<double> values(static_cast<size_t>(numel(info.shape)));
  file.read(name, std::span<double>(values));
  return values;
}

std::vector<int64_t> read_integers(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo& info = file.at(name);
  require(info.shape.size() == 2,
          "'{}': tensor '{}' must be [batch, seq_len], it has {} dimensions", file.path(), name,
          info.shape.size());
  std::vector<int64_t> values(static_cast<size_t>(numel(info.shape)));
  file.read(name, std::span<int64_t>(values));
  return values;
}

class GoldenCheck {
 public:
  explicit GoldenCheck(const GoldenOptions& options);
  VerifyReport run();

 private:
  void check_logits();
  void check_training();
  void add(const std::string& kind, double relative, const std::string& tensor);
  void sample(int64_t index, std::span<int32_t> tokens, std::span<int32_t> labels) const;
  std::vector<LogicalValues> reference(const std::string& prefix,
                                       const std::vector<LogicalValues>& like) const;

  GoldenOptions options_;
  SafetensorsFile file_;
  std::vector<int64_t> ids_;
  std::vector<int64_t> labels_;
  int64_t batch_ = 0;
  int64_t seq_len_ = 0;
  RunSpec spec_;
  VerifyReport report_;
  double largest_ = 0;  // NaN counts as the largest
  TextTable table_{{{"kind", Align::kLeft},
                    {"largest relative error", Align::kRight},
                    {"tensor", Align::kLeft}}};
};

GoldenCheck::GoldenCheck(const GoldenOptions& options)
    : options_(options), file_(SafetensorsFile::open(options.golden)) {
  ids_ = read_integers(file_, "input_ids");
  labels_ = read_integers(file_, "labels");
  require(ids_.size() == labels_.size(), "'{}': input_ids and labels differ in size", file_.path());
  batch_ = file_.at("input_ids").shape[0];
  seq_len_ = file_.at("input_ids").shape[1];
  const std::string config = options.hf + "/config.json";
  spec_.model = model_from_hf_config(read_text(config), config);
  spec_.model.hf = options.hf;
  spec_.parallel = options.parallel;
  const int64_t replicas = spec_.parallel.replicas();
  spec_.train.seq_len = seq_len_;
  spec_.train.micro_batch = ceil_div(batch_, replicas);
  spec_.train.global_batch = spec_.train.micro_batch * replicas;
  spec_.train.dtype = options.dtype;
  spec_.train.threads = 1;
  spec_.train.aux_group = batch_;  // the reference takes its means over the whole batch
  // The recorded optimizer; the layout of the file fixes these.
  spec_.optimizer.lr = 1e-3;
  spec_.optimizer.weight_decay = 0.1;
  spec_.optimizer.clip = 1.0;
  resolve(spec_);
  for (const int64_t id : ids_) {
    require(id >= 0 && id < spec_.model.vocab, "'{}': token {} is outside the vocabulary of {}",
            file_.path(), id, spec_.model.vocab);
  }
  for (const int64_t label : labels_) {
    require(label < spec_.model.vocab, "'{}': label {} is outside the vocabulary of {}",
            file_.path(), label, spec_.model.vocab);
  }
}

// Labels are stored for the token itself; the model predicts the next one.
void GoldenCheck::sample(int64_t index, std::span<int32_t> tokens,
                         std::span<int32_t> labels) const {
  const int64_t row = index % spec_.train.global_batch;
  for (int64_t t = 0; t < seq_len_; ++t) {
    const auto at = static_cast<size_t>(row * seq_len_ + t);
    const auto to = static_cast<size_t>(t);
    tokens[to] = row < batch_ ? static_cast<int32_t>(ids_[at]) : 0;
    labels[to] = row < batch_ && t + 1 < seq_len_ ? static_cast<int32_t>(labels_[at + 1]) : -100;
  }
}

void GoldenCheck::add(const std::string& kind, double relative, const std::string& tensor) {
  const bool bad = exceeds(relative, options_.tolerance);
  report_.equal = report_.equal && !bad;
  if (!(relative <= largest_)) largest_ = relative;
  report_.json["errors"][kind] = {{"largest", relative}, {"tensor", tensor}};
  table_.add_row({kind, fmt::format("{:.2e}{}", relative, bad ? " TOO LARGE" : ""), tensor});
}

void GoldenCheck::check_logits() {
  const std::vector<double> logits = forward_logits(
      spec_, batch_, [this](int64_t index, std::span<int32_t> tokens, std::span<int32_t> labels) {
        sample(index, tokens, labels);
      });
  const std::vector<double> expected = read_values(file_, "logits");
  require(expected.size() == logits.size(), "'{}': logits has {} values, expected {}", file_.path(),
          expected.size(), logits.size());
  add("logits", relative_difference(logits, expected), "logits");
}

std::vector<LogicalValues> GoldenCheck::reference(const std::string& prefix,
                                                  const std::vector<LogicalValues>& like) const {
  std::vector<LogicalValues> list;
  for (const LogicalValues& values : like) {
    const RecordedTensor recorded = recorded_tensor(values.tensor, spec_.model);
    const std::string name = prefix + recorded.name;
    require(file_.at(name).shape == recorded.shape,
            "'{}': tensor '{}' has another shape than the model", file_.path(), name);
    const std::vector<double> stored = read_values(file_, name);
    LogicalValues part{values.tensor, std::vector<double>(values.values.size())};
    for_each_stored_run(values.tensor, [&](int64_t to, int64_t from, int64_t count) {
      std::copy_n(stored.begin() + recorded.first + from, count, part.values.begin() + to);
    });
    list.push_back(std::move(part));
  }
  return list;
}

void GoldenCheck::check_training() {
  const std::vector<double> losses = read_values(file_, "losses");
  const std::vector<double> norms = read_values(file_, "grad_norms");
  ShortRun run;
  run.spec = spec_;
  run.steps = static_cast<int64_t>(losses.size());
  run.samples = [this](int64_t index, std::span<int32_t> tokens, std::span<int32_t> labels) {
    sample(index, tokens, labels);
  };
  run.constant_lr = true;
  const std::vector<StepRecord> records = record_run(run);
  const auto worst = [](const std::vector<Difference>& list) {
    return *std::max_element(
        list.begin(), list.end(),
        [](const Difference& a, const Difference& b) { return !exceeds(a.relative, b.relative); });
  };
  const std::vector<double> loss = read_values(file_, "loss");
  add("loss", relative_difference(std::vector{records[0].loss}, loss), "loss");
  const Difference gradient =
      worst(differences(records[0].gradients, reference("grad.", records[0].gradients)));
  add("gradients", gradient.relative, gradient.name);
  std::vector<double> my_losses;
  std::vector<double> my_norms;
  for (const StepRecord& record : records) {
    my_losses.push_back(record.loss);
    my_norms.push_back(record.grad_norm);
  }
  add("losses", relative_difference(my_losses, losses), fmt::format("{} steps", losses.size()));
  add("grad_norms", relative_difference(my_norms, norms), fmt::format("{} steps", norms.size()));
  const std::string prefix = fmt::format("step{}.", records.size());
  const Difference weight =
      worst(differences(records.back().weights, reference(prefix, records.back().weights)));
  add("weights", weight.relative, weight.name);
}

VerifyReport GoldenCheck::run() {
  report_.equal = true;
  report_.json["schema_version"] = kVerifySchemaVersion;
  report_.json["kind"] = "verification";
  report_.json["hf"] = options_.hf;
  report_.json["golden"] = options_.golden;
  report_.json["dtype"] = std::string(name_of(options_.dtype));
  report_.json["tolerance"] = options_.tolerance;
  check_logits();
  check_training();
  report_.json["equal"] = report_.equal;
  report_.text =
      table_.str() + fmt::format("{}: tolerance {:g}\n", report_.equal ? "equal" : "DIFFERENT",
                                 options_.tolerance);
  if (!report_.equal && largest_ < kFloat32Inside) {
    report_.text +=
        "every error is of the size of float32 rounding: the reference may compute norms or "
        "softmax "
        "in float32, as stock transformers does even in float64; tools/make_golden.py makes "
        "references in full float64\n";
  }
  return std::move(report_);
}

}  // namespace

VerifyReport verify_golden(const GoldenOptions& options) { return GoldenCheck(options).run(); }

}  // namespace tessera

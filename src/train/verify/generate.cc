#include "train/verify/generate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "base/text/json.h"
#include "checkpoint/safetensors.h"
#include "data/chat_folder.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/stream_decoder.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "tensor/element.h"
#include "train/machine_defaults.h"
#include "train/session/checkpoint_weights.h"
#include "train/session/resume.h"
#include "train/session/stored_tensors.h"
#include "train/session/weights.h"
#include "train/verify/checkpoint_model.h"

namespace tessera {
namespace {

RunSpec load_spec(const std::string& run_dir) {
  const std::string path = run_dir + "/resolved.json";
  std::ifstream in(path, std::ios::binary);
  require_config(std::filesystem::exists(run_dir),
                 "'{}' does not exist: name the directory of a run, such as runs/demo", run_dir);
  require_config(std::filesystem::is_directory(run_dir),
                 "'{}' is a file: name the directory of a run, such as runs/demo", run_dir);
  require_config(in.good(), "'{}' holds no run (no resolved.json): give the logging.run_dir of one",
                 run_dir);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return run_spec_from_json(parse_json(text, path));
}

// What speaks: a run that has come to its end, or a checkpoint.
struct Speaker {
  std::string folder;  // with the weights
  std::string words;   // with the tokenizer, if there is one
  RunSpec spec;        // one rank
  bool is_checkpoint = false;
};

Speaker open_speaker(const std::string& path) {
  Speaker speaker{path, path, {}, false};
  if (const std::optional<CheckpointModel> model = find_checkpoint_model(path)) {
    speaker = {model->path, model->run, model->spec, true};
    require_config(model->tokenizer_hash.empty() || !tokenizer_hash_in(model->run).empty(),
                   "'{}' was trained with a tokenizer (SHA-256 {}), and lies in no run directory "
                   "that has it: copy the checkpoint to RUN/checkpoints",
                   path, model->tokenizer_hash);
    if (model->tokenizer_hash.empty()) speaker.words.clear();
  } else {
    speaker.spec = load_spec(path);
  }
  RunSpec& spec = speaker.spec;
  spec.parallel = ParallelSpec();
  spec.train.micro_batch = 1;
  spec.train.global_batch = 1;
  spec.train.threads = 0;
  resolve(spec);
  use_machine_defaults(spec);
  return speaker;
}

// Shapes are compared with the headers alone, before memory is taken for a model that the file may
// not be of.
TensorSource run_weights(const Speaker& speaker, const ParameterLayout& layout) {
  const std::string& run_dir = speaker.folder;
  if (speaker.is_checkpoint) return checkpoint_weights(run_dir, layout);
  std::string path = run_dir + "/model.safetensors";
  if (!std::filesystem::exists(path)) path = run_dir + "/weights.safetensors";  // before 0.2
  require_config(
      std::filesystem::exists(path),
      "the run in '{}' has no model.safetensors: it did not come to its end; train again, or "
      "name one of its checkpoints",
      run_dir);
  const auto file = std::make_shared<SafetensorsFile>(SafetensorsFile::open(path));
  for (const StoredShape& tensor : stored_shapes(layout)) {
    const Shape& found = file->at(tensor.name).shape;
    require(found == tensor.shape, "'{}': '{}' is {}, but the model of '{}/resolved.json' has {}",
            path, tensor.name, to_string(found), run_dir, to_string(tensor.shape));
  }
  const auto reader = std::make_shared<StoredReader>(
      [file](const std::string& name, const Shape&, int64_t first, std::span<double> out) {
        file->read_range(name, first, out);
      });
  return [reader](const LogicalTensor& tensor, int64_t first, std::span<double> out) {
    reader->read(tensor, first, out);
  };
}

// temperature, then top-k, then one draw.
int64_t choose(const std::vector<double>& row, const GenerateOptions& options, uint64_t position) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  if (options.temperature <= 0) return order.front();
  if (options.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  }
  const double top = row[static_cast<size_t>(order.front())];
  std::vector<double> weight;
  double total = 0;
  for (const int64_t token : order) {
    total += std::exp((row[static_cast<size_t>(token)] - top) / options.temperature);
    weight.push_back(total);
  }
  const double draw = uniform_at(options.seed, /*stream=*/0, position) * total;
  const auto at = std::upper_bound(weight.begin(), weight.end(), draw) - weight.begin();
  return order[std::min(static_cast<size_t>(at), order.size() - 1)];
}

// Programs are compiled for one length. These double, so that a token costs at most twice the text
// before it, and few are compiled. What the model says of a token does not depend on how many
// places follow it: attention is causal, and experts have room for all.
int64_t compiled_length(int64_t text, int64_t window) {
  constexpr int64_t kShortest = 32;
  int64_t length = kShortest;
  while (length < std::min(text, window)) length *= 2;
  return std::min(length, window);
}

StepGraph forward_step(RunSpec spec, int64_t length) {
  spec.train.seq_len = length;
  return build_step(spec, StepKind::kForward);
}

// What a run speaks in: text is encoded once, and decoded as it comes.
class RunSpeech {
 public:
  virtual ~RunSpeech() = default;
  [[nodiscard]] virtual std::vector<int32_t> encode(const std::string& prompt) = 0;
  [[nodiscard]] virtual std::string decode(int32_t token) = 0;
  [[nodiscard]] virtual std::string finish() { return ""; }
  [[nodiscard]] virtual int64_t vocab() const = 0;  // tokens from there on are never chosen
  [[nodiscard]] virtual int32_t end_token() const { return -1; }
  [[nodiscard]] virtual bool gives_characters() const { return false; }
};

class ByteSpeech final : public RunSpeech {
 public:
  std::vector<int32_t> encode(const std::string& prompt) override {
    std::vector<int32_t> tokens;
    for (const char byte : prompt) tokens.push_back(static_cast<uint8_t>(byte));
    return tokens;
  }
  std::string decode(int32_t token) override { return {static_cast<char>(token)}; }
  [[nodiscard]] int64_t vocab() const override { return 256; }
};

class TokenSpeech final : public RunSpeech {
 public:
  explicit TokenSpeech(const std::string& run_dir)
      : tokenizer_(Tokenizer::load(run_dir)),
        decoder_(tokenizer_, /*skip_special=*/true),
        end_token_(tokenizer_.id_of(special_tokens_of(run_dir).value("eos_token", ""))) {}

  std::vector<int32_t> encode(const std::string& prompt) override {
    std::vector<int32_t> tokens;
    TokenEncoder(tokenizer_).encode(prompt, /*add_special=*/true, tokens);
    // Some tokenizers end a text themselves; this one goes on.
    if (tokens.size() > 1 && tokens.back() == end_token_) tokens.pop_back();
    require_config(!tokens.empty(), "the prompt has no tokens: give some text");
    return tokens;
  }
  std::string decode(int32_t token) override { return decoder_.push(token); }
  std::string finish() override { return decoder_.finish(); }
  [[nodiscard]] int64_t vocab() const override { return tokenizer_.vocab_size(); }
  [[nodiscard]] int32_t end_token() const override { return end_token_; }
  [[nodiscard]] bool gives_characters() const override { return true; }

 private:
  Tokenizer tokenizer_;
  StreamDecoder decoder_;
  int32_t end_token_;
};

std::unique_ptr<RunSpeech> speech_of(const std::string& run_dir) {
  if (!run_dir.empty() && std::filesystem::exists(run_dir + "/tokenizer.json")) {
    return std::make_unique<TokenSpeech>(run_dir);
  }
  return std::make_unique<ByteSpeech>();
}

// What the model says comes after the last token of `text`, of which it sees the end.
void read_next(Executor& executor, const std::vector<int32_t>& text, int64_t window,
               std::vector<double>& row) {
  const Program& program = executor.program();
  const auto length = static_cast<int64_t>(text.size());
  const int64_t from = std::max<int64_t>(0, length - window);
  int32_t* tokens = executor.input(program.tokens);
  for (int64_t t = 0; t < window; ++t) {
    tokens[t] = from + t < length ? text[static_cast<size_t>(from + t)] : 0;
  }
  executor.run({});
  const HostView view = executor.view(program.logits);
  const Tensor& logits = view.tensor;
  const int64_t last = length - from - 1;
  for (size_t v = 0; v < row.size(); ++v) {
    row[v] = read_element(logits, last * logits.dim(1) + static_cast<int64_t>(v));
  }
}

void require_finite(const std::vector<double>& row, const std::string& run_dir) {
  if (std::all_of(row.begin(), row.end(), [](double logit) { return std::isfinite(logit); }))
    return;
  throw Error(fmt::format("'{}': the model says nothing that is finite: its weights hold NaN or "
                          "Inf; train it again with a lower optimizer.lr",
                          run_dir),
              ExitCode::kDiverged);
}

}  // namespace

std::string generate(const GenerateOptions& options) {
  require_config(!options.prompt.empty(), "the prompt is empty: give at least one byte");
  const Speaker speaker = open_speaker(options.run_dir);
  const RunSpec& spec = speaker.spec;
  const std::unique_ptr<RunSpeech> speech = speech_of(speaker.words);
  std::vector<double> row(static_cast<size_t>(std::min(spec.model.vocab, speech->vocab())));
  std::vector<int32_t> tokens = speech->encode(options.prompt);
  std::string text;
  const auto say = [&](const std::string& part) {
    text += part;
    if (options.on_text && speech->gives_characters() && !part.empty()) options.on_text(part);
  };
  for (const int32_t token : tokens) say(speech->decode(token));
  const auto length_now = [&] { return compiled_length(std::ssize(tokens), spec.train.seq_len); };
  const TensorSource weights = run_weights(speaker, forward_step(spec, length_now()).layout);
  bool ended = false;
  for (int64_t n = 0; n < options.tokens && !ended;) {
    const int64_t length = length_now();
    World world(forward_step(spec, length));
    world.run([&](int, Executor& executor) {
      load_weights(executor, world.step(), weights);
      for (; n < options.tokens && !ended && length_now() == length; ++n) {
        read_next(executor, tokens, length, row);
        require_finite(row, options.run_dir);
        tokens.push_back(static_cast<int32_t>(choose(row, options, static_cast<uint64_t>(n))));
        ended = tokens.back() == speech->end_token();
        say(speech->decode(tokens.back()));
      }
    });
  }
  say(speech->finish());
  return text;
}

}  // namespace tessera

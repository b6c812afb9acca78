#include "cost/explain/values.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/parse_real.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "cost/hardware/catalogue.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/catalogue/model_size.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr double kLargest = 1e18;  // products of a few of them are far from overflow
constexpr double kLargestWhole = 1e12;
constexpr size_t kMostNumbers = 64;

void check_range(const Parameter& parameter, double value, std::string_view text) {
  const bool whole = parameter.kind == Parameter::Kind::kWhole;
  const double largest =
      whole ? kLargestWhole
      : parameter.unit == Unit::kFlopsPerSecond || parameter.unit == Unit::kBytesPerSecond
          ? kLargest * 1e6
          : kLargest;
  const bool is_list = parameter.kind == Parameter::Kind::kReals;
  const double least = parameter.may_be_zero ? 0 : whole ? 1 : 1e-15;
  const bool in_range =
      is_list ? value >= -kLargest && value <= kLargest : value >= least && value <= largest;
  require_config(in_range, "--{} is {}: expected at least {} and at most {:g}", parameter.name,
                 in_quotes(text),
                 is_list ? fmt::format("{:g}", -kLargest) : fmt::format("{:g}", least), largest);
  require_config(!whole || value == static_cast<double>(static_cast<int64_t>(value)),
                 "--{} is {}: expected a whole number", parameter.name, in_quotes(text));
  require_config(parameter.unit != Unit::kShare || value <= 1,
                 "--{} is {}: a share is at most 100%", parameter.name, in_quotes(text));
}

// "80" for a memory of 80 GB: nobody means so few bytes, so it is the unit that is missing.
void require_unit(const Parameter& parameter, double value, std::string_view text) {
  constexpr double kFew = 1000, kFarBelow = 1e-6;
  if (parameter.fallback.empty() || parameter.kind != Parameter::Kind::kReal || value >= kFew ||
      value <= 0) {
    return;
  }
  const double usual = parse_quantity(parameter.unit, parameter.fallback, parameter.name);
  const bool bare = whole_real(trim(text)).has_value();
  require_config(!bare || value >= kFarBelow * usual,
                 "--{} is {}, a number without its unit: write it as in {}", parameter.name,
                 in_quotes(text), parameter.fallback);
}

// Also checks that its numbers go together and can be counted.
ModelSpec checked_model(const std::string& name, const FileReader& read) {
  RunSpec spec;
  spec.model = find_model(name, read).model;
  spec.train.seq_len = 1;
  resolve(spec);
  return spec.model;
}

// What the clusters of the catalogue ask for such a device; 0: none says.
double usd_per_hour(const DeviceSpec& device) {
  for (const std::string_view name : cluster_names()) {
    const Cluster cluster = find_cluster(std::string(name));
    const double price = cluster.usd_per_device_hour.value;
    if (price > 0 && cluster.device.name == device.name) return price;
  }
  return 0;
}

}  // namespace

Values::Values(std::span<const Parameter> parameters, const GivenTexts& given,
               const FileReader& read_file) {
  for (const auto& one : given) {
    const bool known = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const Parameter& p) { return p.name == one.first; });
    require_config(known, "unknown value '--{}'", shortened(one.first));
  }
  for (const Parameter& parameter : parameters) {
    values_.push_back({&parameter, {}, ""});
    const auto found = given.find(std::string(parameter.name));
    const std::string_view text = found != given.end() ? found->second : parameter.fallback;
    if (found != given.end() || !text.empty()) read(parameter, text);
  }
  const auto model = given.find("model");
  if (model != given.end()) take_from_model(checked_model(model->second, read_file), given);
  const auto device = given.find("device");
  if (device != given.end()) take_from_device(find_device(device->second, read_file), given);
}

void Values::read(const Parameter& parameter, std::string_view text) {
  Value& value = values_.back();
  value.text = std::string(text);
  if (parameter.kind == Parameter::Kind::kText) return;
  const std::string what = fmt::format("--{}", parameter.name);
  const bool is_list = parameter.kind == Parameter::Kind::kReals;
  for (const std::string_view piece :
       is_list ? split(text, ',') : std::vector<std::string_view>{text}) {
    value.numbers.push_back(parse_quantity(parameter.unit, piece, what));
    check_range(parameter, value.numbers.back(), piece);
    require_unit(parameter, value.numbers.back(), piece);
  }
  require_config(value.numbers.size() <= kMostNumbers, "{} has {} numbers; give at most {}", what,
                 value.numbers.size(), kMostNumbers);
}

void Values::take(std::string_view name, double fact, const GivenTexts& given) {
  if (fact == 0 || given.contains(std::string(name))) return;
  for (Value& value : values_) {
    if (value.parameter->name != name) continue;
    value.numbers = {fact};
    check_range(*value.parameter, fact, fmt::format("{}", fact));
  }
}

void Values::take_from_model(const ModelSpec& m, const GivenTexts& given) {
  const ModelSize size = model_size(m);
  const std::pair<std::string_view, int64_t> facts[] = {
      {"params", size.total},   {"active", size.active}, {"layers", m.layers},
      {"hidden", m.hidden},     {"heads", m.heads},      {"kv-heads", m.kv_heads},
      {"head-dim", m.head_dim}, {"ffn", m.ffn},          {"vocab", m.vocab}};
  for (const auto& [name, fact] : facts) take(name, static_cast<double>(fact), given);
}

void Values::take_from_device(const DeviceSpec& device, const GivenTexts& given) {
  const auto asks_price = [](const Value& value) { return value.parameter->name == "price"; };
  if (std::any_of(values_.begin(), values_.end(), asks_price)) {
    take("price", usd_per_hour(device), given);
  }
  take("memory", device.memory_bytes.value, given);
  take("peak", device.peak(MathType::kF16), given);
  take("hbm", device.memory_bandwidth.value, given);
}

const Values::Value& Values::find(std::string_view name) const {
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const Value& v) { return v.parameter->name == name; });
  TESSERA_CHECK(found != values_.end(), "no parameter {}", name);
  return *found;
}

bool Values::has(std::string_view name) const {
  const Value& value = find(name);
  return !value.numbers.empty() || !value.text.empty();
}

double Values::operator[](std::string_view name) const {
  const Value& value = find(name);
  TESSERA_CHECK(!value.numbers.empty(), "--{} has no value", name);
  return value.numbers.front();
}

int64_t Values::whole(std::string_view name) const { return static_cast<int64_t>((*this)[name]); }

const std::vector<double>& Values::list(std::string_view name) const { return find(name).numbers; }

const std::string& Values::text(std::string_view name) const { return find(name).text; }

std::string Values::shown(std::string_view name) const {
  return text_of(Quantity{(*this)[name], find(name).parameter->unit});
}

std::vector<GivenValue> Values::given() const {
  std::vector<GivenValue> result;
  for (const Value& value : values_) {
    const Parameter& p = *value.parameter;
    if (value.numbers.empty() && value.text.empty()) continue;
    GivenValue line{std::string(p.name), std::string(p.symbol), value.text, value.text};
    if (p.kind == Parameter::Kind::kReals) {
      line.value = value.numbers;
    } else if (p.kind != Parameter::Kind::kText) {
      line.text = text_of(Quantity{value.numbers.front(), p.unit});
      line.value = value.numbers.front();
    }
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace tessera

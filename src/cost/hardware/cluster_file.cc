#include "cost/hardware/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text/text.h"
#include "cost/hardware/device_keys.h"

namespace tessera {
namespace {

constexpr std::pair<const char*, double ReadingShare::*> kReadingLists[] = {
    {"bytes", &ReadingShare::bytes}, {"mid", &ReadingShare::mid}, {"far", &ReadingShare::far}};

// ---- writing

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c < ' ' && c >= 0 ? ' ' : c;
  }
  return result + "\"";
}

std::string line(std::string_view key, const Constant& constant) {
  return fmt::format("{} = [{}, \"{}\", {}]\n", key, constant.value, name_of(constant.provenance),
                     quoted(constant.source));
}

std::string types_table(std::string_view name,
                        const std::array<Constant, kNumMathTypes>& constants) {
  std::string text = fmt::format("\n[device.{}]\n", name);
  for (int i = 0; i < kNumMathTypes; ++i) {
    const Constant& constant = constants[static_cast<size_t>(i)];
    if (constant.value > 0) text += line(name_of(static_cast<MathType>(i)), constant);
  }
  return text;
}

std::string device_text(const DeviceSpec& device) {
  std::string text = "\n[device]\n" + fmt::format("name = {}\nkind = \"{}\"\n", quoted(device.name),
                                                  name_of(device.kind));
  for (const DeviceKey& key : kDeviceKeys) text += line(key.name, device.*key.field);
  return text + types_table("peak_flops", device.peak_flops) +
         types_table("product_efficiency", device.product_efficiency);
}

std::string level_text(const LinkLevel& level) {
  return fmt::format("\n[[levels]]\nname = {}\ndevices = {}\nshape = \"{}\"\n", quoted(level.name),
                     level.devices, name_of(level.shape)) +
         line("bandwidth", level.bandwidth) + line("latency_s", level.latency_s) +
         line("efficiency", level.efficiency) + line("oversubscription", level.oversubscription) +
         line("shared_adapters", level.shared_adapters) +
         (level.in_network_sums ? "in_network_sums = true\n" : "");
}

std::string fit_text(const TimeFit& fit) {
  std::string terms;
  for (int i = 0; i < kNumTimeTerms; ++i) {
    const double value = fit.seconds[static_cast<size_t>(i)];
    if (value == 0) continue;
    terms += fmt::format("{}{} = {}", terms.empty() ? "" : ", ", name_of(static_cast<TimeTerm>(i)),
                         value);
  }
  return fmt::format("points = {}\nerror_pct = {:.1f}\nseconds = {{ {} }}\n", fit.points,
                     fit.error_pct, terms);
}

std::string sharing_text(const std::vector<CoreSharing>& rows) {
  const auto list = [&](const auto& value_of) {
    std::string values;
    for (const CoreSharing& row : rows) {
      values += fmt::format("{}{:.4g}", values.empty() ? "" : ", ", value_of(row));
    }
    return "[" + values + "]\n";
  };
  std::string text = "\n[measured.sharing]  # times as long as alone, by threads at work\n";
  text +=
      "threads = " + list([](const CoreSharing& row) { return static_cast<double>(row.threads); });
  for (const OpClass op_class : kAllOpClasses) {
    text += fmt::format("{} = {}", name_of(op_class), list([&](const CoreSharing& row) {
                          return row.slowdown[static_cast<size_t>(op_class)];
                        }));
  }
  return text;
}

std::string reading_text(const ReadingShares& shares) {
  std::string text = fmt::format("\n[[measured.reading]]\nthreads = {}\n", shares.threads);
  for (const auto& [name, field] : kReadingLists) {
    text += fmt::format("{} = [", name);
    for (const ReadingShare& point : shares.points) text += fmt::format("{:.4g}, ", point.*field);
    text += "]\n";
  }
  return text;
}

std::string measured_text(const MeasuredMachine& machine) {
  std::string text = fmt::format(
      "\n[measured]\nsource = {}\ndevice = \"{}\"\ncores = {}\ndispatch_s = {}\n",
      quoted(machine.source), name_of(machine.device), machine.cores, machine.dispatch_s);
  if (!machine.sharing.empty()) text += sharing_text(machine.sharing);
  for (const MeasuredKernel& kernel : machine.kernels) {
    text += fmt::format("\n[[measured.kernels]]\nop = {}\ntype = \"{}\"\nthreads = {}\n",
                        quoted(kernel.op), name_of(kernel.type), kernel.threads) +
            (kernel.tokens > 0 ? fmt::format("tokens = {}\n", kernel.tokens) : "") +
            fit_text(kernel.fit);
  }
  for (const MeasuredCollective& collective : machine.collectives) {
    text += fmt::format("\n[[measured.collectives]]\nop = {}\nranks_are = {}\nranks = {}\n",
                        quoted(collective.op), quoted(collective.ranks_are), collective.ranks) +
            fit_text(collective.fit);
  }
  for (const ReadingShares& shares : machine.reading) text += reading_text(shares);
  return text;
}

// ---- reading

class MeasuredReader {
 public:
  explicit MeasuredReader(const std::string& file_name) : file_name_(file_name) {}

  [[nodiscard]] MeasuredMachine read(const toml::table& table) const {
    refuse_unknown(
        table, std::array<std::string_view, 8>{"source", "device", "cores", "dispatch_s", "sharing",
                                               "kernels", "collectives", "reading"});
    MeasuredMachine machine;
    machine.source = text(table, "source");
    if (table.contains("device")) machine.device = device(text(table, "device"));
    machine.cores = whole(table, "cores");
    machine.dispatch_s = number(node(table, "dispatch_s"), "dispatch_s");
    if (table.contains("sharing")) machine.sharing = sharing(node(table, "sharing"));
    for_each_table(table, "kernels",
                   [&](const toml::table& entry) { machine.kernels.push_back(kernel(entry)); });
    for_each_table(table, "collectives", [&](const toml::table& entry) {
      machine.collectives.push_back(collective(entry));
    });
    for_each_table(table, "reading",
                   [&](const toml::table& entry) { machine.reading.push_back(reading(entry)); });
    return machine;
  }

 private:
  [[nodiscard]] static TrainDevice device(const std::string& name) {
    const std::optional<TrainDevice> found = choice_named<TrainDevice>(name);
    require_config(found.has_value(), "measured.device must be cpu or cuda, got '{}'", name);
    return *found;
  }

  [[nodiscard]] std::string at(const toml::node& place) const {
    const toml::source_position& begin = place.source().begin;
    return fmt::format("{}:{}:{}", file_name_, begin.line, begin.column);
  }

  void refuse_unknown(const toml::table& table, std::span<const std::string_view> known) const {
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      throw ConfigError(fmt::format("{}: unknown key {}; {}", at(value), in_quotes(name),
                                    suggestion(name, known, "keys")));
    }
  }

  [[nodiscard]] const toml::node& node(const toml::table& table, std::string_view key) const {
    const toml::node* found = table.get(key);
    require_config(found != nullptr, "{}: {} is missing", at(table), key);
    return *found;
  }

  [[nodiscard]] double number(const toml::node& value, std::string_view key) const {
    const std::optional<double> found = value.value<double>();
    require_config(found.has_value() && *found == *found && *found >= -1e300 && *found <= 1e300,
                   "{}: {} must be a number", at(value), key);
    return *found;
  }

  [[nodiscard]] int whole(const toml::table& table, std::string_view key) const {
    const toml::node& value = node(table, key);
    const std::optional<int64_t> found = value.value<int64_t>();
    require_config(value.is_integer() && found.value_or(0) >= 1 && *found <= 1 << 24,
                   "{}: {} must be a whole number from 1 to {}", at(value), key, 1 << 24);
    return static_cast<int>(*found);
  }

  [[nodiscard]] std::string text(const toml::table& table, std::string_view key) const {
    const toml::node& value = node(table, key);
    require_config(value.is_string(), "{}: {} must be a text in quotes", at(value), key);
    return value.as_string()->get();
  }

  [[nodiscard]] const toml::array& array(const toml::node& value, std::string_view key) const {
    require_config(value.is_array(), "{}: {} must be a list", at(value), key);
    return *value.as_array();
  }

  template <typename F>
  void for_each_table(const toml::table& table, std::string_view key, const F& f) const {
    const toml::node* found = table.get(key);
    if (found == nullptr) return;
    for (const toml::node& entry : array(*found, key)) {
      require_config(entry.is_table(), "{}: write [[measured.{}]]", at(entry), key);
      f(*entry.as_table());
    }
  }

  [[nodiscard]] std::vector<CoreSharing> sharing(const toml::node& section) const {
    require_config(section.is_table(),
                   "{}: write [measured.sharing] with a list of threads and one of every class",
                   at(section));
    const toml::table& table = *section.as_table();
    std::vector<std::string_view> names = {"threads"};
    for (const OpClass op_class : kAllOpClasses) names.push_back(name_of(op_class));
    refuse_unknown(table, names);
    std::vector<CoreSharing> rows;
    for (const toml::node& threads : array(node(table, "threads"), "threads")) {
      const double value = number(threads, "threads");
      require_config(value >= 1 && value <= 1 << 24,
                     "{}: a number of threads must be from 1 to {}, got {:g}", at(threads), 1 << 24,
                     value);
      rows.push_back({static_cast<int>(value), {}});
    }
    for (const OpClass op_class : kAllOpClasses) {
      const toml::array& values = array(node(table, name_of(op_class)), name_of(op_class));
      require_config(values.size() == rows.size(), "{}: {} has {} numbers, but threads has {}",
                     at(values), name_of(op_class), values.size(), rows.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].slowdown[static_cast<size_t>(op_class)] = number(values[i], name_of(op_class));
      }
    }
    return rows;
  }

  [[nodiscard]] TimeFit fit(const toml::table& entry) const {
    TimeFit result;
    result.points = whole(entry, "points");
    result.error_pct = number(node(entry, "error_pct"), "error_pct");
    const toml::node& seconds = node(entry, "seconds");
    require_config(seconds.is_table(), "{}: seconds must be a table such as {{ call = 1e-6 }}",
                   at(seconds));
    std::vector<std::string_view> names;
    for (int i = 0; i < kNumTimeTerms; ++i) names.push_back(name_of(static_cast<TimeTerm>(i)));
    refuse_unknown(*seconds.as_table(), names);
    for (size_t i = 0; i < names.size(); ++i) {
      const toml::node* value = seconds.as_table()->get(names[i]);
      if (value != nullptr) result.seconds[i] = number(*value, names[i]);
    }
    return result;
  }

  [[nodiscard]] MeasuredKernel kernel(const toml::table& entry) const {
    refuse_unknown(entry, std::array<std::string_view, 7>{"op", "type", "threads", "tokens",
                                                          "points", "error_pct", "seconds"});
    MeasuredKernel result;
    result.op = text(entry, "op");
    const std::string type = text(entry, "type");
    bool known = false;
    for (int i = 0; i < kNumDTypes; ++i) {
      if (name_of(static_cast<DType>(i)) != type) continue;
      result.type = static_cast<DType>(i);
      known = true;
    }
    require_config(known, "{}: unknown type {}; use f32, bf16, f16 or f64", at(entry),
                   in_quotes(type));
    result.threads = whole(entry, "threads");
    if (entry.contains("tokens")) result.tokens = whole(entry, "tokens");
    result.fit = fit(entry);
    return result;
  }

  [[nodiscard]] ReadingShares reading(const toml::table& entry) const {
    refuse_unknown(entry, std::array<std::string_view, 4>{"threads", "bytes", "mid", "far"});
    ReadingShares result{whole(entry, "threads"), {}};
    result.points.resize(array(node(entry, "bytes"), "bytes").size());
    for (const auto& [name, field] : kReadingLists) {
      const toml::array& values = array(node(entry, name), name);
      require_config(values.size() == result.points.size(), "{}: {} has {} numbers, but bytes {}",
                     at(values), name, values.size(), result.points.size());
      for (size_t i = 0; i < values.size(); ++i) {
        result.points[i].*field = number(values[i], name);
      }
    }
    return result;
  }

  [[nodiscard]] MeasuredCollective collective(const toml::table& entry) const {
    refuse_unknown(entry, std::array<std::string_view, 6>{"op", "ranks_are", "ranks", "points",
                                                          "error_pct", "seconds"});
    return {text(entry, "op"), text(entry, "ranks_are"), whole(entry, "ranks"), fit(entry)};
  }

  const std::string& file_name_;
};

}  // namespace

std::string to_toml(const Cluster& cluster) {
  std::string text = fmt::format("# Written by tessera calibrate: {}\nname = {}\ndevices = {}\n",
                                 cluster.measured.source, quoted(cluster.name), cluster.devices);
  if (cluster.usd_per_device_hour.value > 0) {
    text += line("usd_per_device_hour", cluster.usd_per_device_hour);
  }
  if (cluster.storage_bandwidth.value > 0) {
    text += line("storage_bandwidth", cluster.storage_bandwidth);
  }
  text += device_text(cluster.device);
  for (const LinkLevel& level : cluster.levels) text += level_text(level);
  if (!cluster.measured.empty()) text += measured_text(cluster.measured);
  return text;
}

MeasuredMachine read_measured(const toml::table& table, const std::string& file_name) {
  return MeasuredReader(file_name).read(table);
}

}  // namespace tessera

#include "train/directory/metrics_cut.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/error.h"
#include "checkpoint/output_file.h"

namespace tessera {
namespace {

// Nothing where the line does not say.
std::optional<int64_t> step_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto step = json.find("step");
  if (step == json.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

// Calls f(line, whether it has its end).
template <typename F>
void for_each_text_line(const std::string& path, const F& f) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "cannot read '{}': check its permissions", path);
  for (std::string line; std::getline(file, line);) f(line, !file.eof());
}

}  // namespace

MetricsCut drop_metrics_after(const std::string& path, int64_t step) {
  MetricsCut cut;
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return cut;
  const auto stays = [&](const std::string& line, bool whole) {
    const std::optional<int64_t> at = step_of(line);
    return whole && (!at || *at <= step);
  };
  for_each_text_line(path, [&](const std::string& line, bool whole) {
    ++(stays(line, whole) ? cut.kept : cut.dropped);
  });
  if (cut.dropped == 0) return cut;
  OutputFile out(path);
  for_each_text_line(path, [&](const std::string& line, bool whole) {
    if (!stays(line, whole)) return;
    const std::string ended = line + "\n";
    out.write(std::as_bytes(std::span(ended)));
  });
  out.commit();
  return cut;
}

}  // namespace tessera

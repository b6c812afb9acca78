#include "train/session/run_directory.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"

namespace tessera {

RunDirectory::RunDirectory(std::string path) : path_(std::move(path)) {
  std::error_code failure;
  std::filesystem::create_directories(path_, failure);
  require_config(!failure, "cannot create the run directory '{}': {}; set logging.run_dir", path_,
                 failure.message());
  // What a run before this one ended with does not describe this one, which may not get that far.
  std::filesystem::remove(file("summary.json"), failure);
  std::filesystem::rename(file("weights.safetensors"), file("weights.previous.safetensors"),
                          failure);
  metrics_.open(file("metrics.jsonl"), std::ios::trunc);
  require_config(metrics_.good(), "cannot write in the run directory '{}': set logging.run_dir",
                 path_);
}

void RunDirectory::write_text(const std::string& name, const std::string& text) const {
  const std::string temporary = file(name + ".tmp");
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    require(out.good(), "cannot write '{}': is the disk full?", temporary);
  }
  std::error_code failure;
  std::filesystem::rename(temporary, file(name), failure);
  require(!failure, "cannot write '{}': {}", file(name), failure.message());
}

void RunDirectory::write_json(const std::string& name, const nlohmann::ordered_json& json) const {
  write_text(name, json.dump(2) + "\n");
}

bool RunDirectory::append_metrics(nlohmann::ordered_json line) {
  for (auto& [key, value] : line.items()) {
    if (!value.is_number_float()) continue;
    const auto number = value.get<double>();
    if (std::isnan(number)) value = "NaN";
    if (std::isinf(number)) value = number > 0 ? "Infinity" : "-Infinity";
  }
  const std::string text = line.dump() + "\n";
  metrics_ << text << std::flush;
  if (metrics_.good()) {
    metrics_bytes_ += static_cast<int64_t>(text.size());
    return true;
  }
  metrics_ = std::ofstream();  // before the cut: closing tries once more what is left of the line
  std::error_code failure;
  std::filesystem::resize_file(file("metrics.jsonl"), static_cast<uintmax_t>(metrics_bytes_),
                               failure);
  open_metrics();
  return false;
}

bool RunDirectory::vanished() const {
  std::error_code failure;
  return !std::filesystem::exists(file("metrics.jsonl"), failure);
}

void RunDirectory::make_again() {
  std::error_code failure;
  std::filesystem::create_directories(path_, failure);
  require(!failure, "cannot create the run directory '{}': {}", path_, failure.message());
  metrics_bytes_ = 0;
  open_metrics();
  require(metrics_.good(), "cannot write in the run directory '{}'", path_);
}

void RunDirectory::open_metrics() {
  metrics_ = std::ofstream(file("metrics.jsonl"), std::ios::app);
}

}  // namespace tessera

// The files of a run: config.toml, resolved.json, plan.json, metrics.jsonl, summary.json, weights.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera {

class RunDirectory {
 public:
  // Creates the folder and its parents, and starts a new metrics.jsonl. Weights of a run before
  // this one become weights.previous.safetensors. Throws ConfigError when it cannot be written.
  explicit RunDirectory(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  void write_text(const std::string& name, const std::string& text) const;
  void write_json(const std::string& name, const nlohmann::ordered_json& json) const;
  // One line, flushed. NaN and Inf become the strings "NaN", "Infinity", "-Infinity". False: it
  // cannot be written, as on a full disk; the file keeps its whole lines, and the next one may do.
  [[nodiscard]] bool append_metrics(nlohmann::ordered_json line);

  // Whether somebody removed the folder, or the metrics, while the run goes on.
  [[nodiscard]] bool vanished() const;
  // Makes the folder again, with an empty metrics.jsonl. Throws Error where that fails.
  void make_again();

 private:
  void open_metrics();

  std::string path_;
  int64_t metrics_bytes_ = 0;  // of whole lines
  std::ofstream metrics_;
};

}  // namespace tessera

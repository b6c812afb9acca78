// The files of a run: config.toml, resolved.json, plan.json, metrics.jsonl, summary.json, weights.
#pragma once

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
  // One line, flushed. NaN and Inf become the strings "NaN", "Infinity", "-Infinity".
  void append_metrics(nlohmann::ordered_json line);

 private:
  std::string path_;
  std::ofstream metrics_;
};

}  // namespace tessera

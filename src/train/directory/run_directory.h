// The files of a run: config.toml, resolved.json, resolved.toml, plan.json, metrics.jsonl,
// model.safetensors, config.json, summary.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launch/unique_fd.h"

namespace tessera {

// The name of a file in `folder` that a run there must not replace: what a run that did a step has
// left, or a file of such a name that no run wrote. Empty: there is none.
std::string run_file_in(const std::string& folder);

// FOLDER/previous, or FOLDER/previous-2, ...: the first that does not exist.
std::string place_for_former_run(const std::string& folder);

// Throws ConfigError when a link, a pipe or a folder has the name of a run's file: nothing is
// written through one.
void require_plain_run_files(const std::string& folder);

// The folder must be this process's alone (run_claim.h) for as long as the object lives.
class RunDirectory {
 public:
  // Creates the folder and its parents, and starts a new metrics.jsonl. A run before this one is
  // moved, with all its files, to a folder of its own inside: weights are never replaced. Throws
  // ConfigError when the folder cannot be written.
  explicit RunDirectory(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& former_run() const { return former_run_; }  // empty: none

  void write_text(const std::string& name, const std::string& text) const;
  void write_json(const std::string& name, const nlohmann::ordered_json& json) const;
  // One line, written at once. NaN and Inf become the strings "NaN", "Infinity", "-Infinity".
  // False: it cannot be written, as on a full disk; the file keeps its whole lines, and the next
  // one may do.
  [[nodiscard]] bool append_metrics(nlohmann::ordered_json line);

  // Whether somebody removed the folder, or the metrics, while the run goes on.
  [[nodiscard]] bool vanished() const;
  // Makes the folder again, with an empty metrics.jsonl. Throws Error where that fails.
  void make_again();

 private:
  void open_metrics();

  std::string path_;
  std::string former_run_;
  int64_t metrics_bytes_ = 0;  // of whole lines
  UniqueFd metrics_;
};

}  // namespace tessera

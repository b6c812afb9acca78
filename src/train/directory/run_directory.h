// The files of a run: config.toml, resolved.json, resolved.toml, plan.json, metrics.jsonl,
// model.safetensors, config.json, summary.json; tokenizer.json where it trains on tokens.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "launch/unique_fd.h"
#include "train/directory/run_lock.h"

namespace tessera {

// The name of a file in `folder` that a run there must not replace: what a run that did a step has
// left, or a file of such a name that no run wrote. Empty: there is none.
std::string run_file_in(const std::string& folder);
// A run began there and did not come as far as to write weights.
bool was_cut_off(const std::string& folder);

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
  // Goes on with the run that is there, after step `step`: its files stay, lines of metrics.jsonl
  // about later steps go.
  RunDirectory(std::string path, int64_t step);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& former_run() const { return former_run_; }  // empty: none

  void write_text(const std::string& name, const std::string& text) const;
  void write_json(const std::string& name, const nlohmann::ordered_json& json) const;
  // One line, written at once. NaN and Inf become the strings "NaN", "Infinity", "-Infinity".
  // False: it cannot be written, as on a full disk; the file keeps its whole lines, and the next
  // one may do.
  [[nodiscard]] bool append_metrics(nlohmann::ordered_json line);

  // Whether somebody removed or replaced the folder, its lock or the metrics while the run goes on.
  [[nodiscard]] bool vanished() const;
  // Makes the folder again, with a lock of its own and an empty metrics.jsonl; metrics that
  // somebody put in the place of ours are continued. Returns whether the lines so far are gone.
  // Throws Error where the folder cannot be made, or has become another run's.
  bool make_again();
  // False: nothing may be written there until make_again() has returned.
  [[nodiscard]] bool is_ours() const;

 private:
  using Identity = std::optional<std::pair<uint64_t, uint64_t>>;  // device and inode

  [[nodiscard]] static Identity identity_of(const std::string& path);
  [[nodiscard]] bool metrics_are_there() const;
  void make_folder() const;
  void take_folder();
  void open_metrics();
  void continue_metrics();

  std::string path_;
  std::string former_run_;
  Identity lock_;  // under which the run was started, by this process or the one that started it
  Identity second_lock_;             // of a folder that was made again; the first may come back
  std::optional<RunLock> own_lock_;  // which that is
  int64_t metrics_bytes_ = 0;        // of whole lines
  UniqueFd metrics_;
};

}  // namespace tessera

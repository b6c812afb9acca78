// logging.tensorboard: the scalars of metrics.jsonl once more, as TensorBoard reads them.
#pragma once

#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera {

class EventLog {
 public:
  // Starts events.out.tfevents.* in `folder`, which exists; those of a run before go. Throws Error
  // where it cannot be written.
  EventLog(const std::string& folder, double unix_time);

  // A line of metrics.jsonl, flushed. Throws Error.
  void append(const nlohmann::ordered_json& metrics_line);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace tessera

// The event files that TensorBoard reads: scalars over steps. A file is a row of records, each
//   length (u64), masked CRC-32C of those 8 bytes (u32), data, masked CRC-32C of the data (u32)
// with all numbers little-endian; the data is a protobuf message `Event`. Pure: bytes as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watch/metrics_line.h"

namespace tessera {

struct Scalars {
  double time = 0;  // Unix time, seconds
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> values;  // by tag: "train/loss"
};

// The first record of a file, and one with the values of a step.
std::string event_file_head(double time);
std::string event_record(const Scalars& scalars);

// "events.out.tfevents.1794724280.tessera": TensorBoard looks for names that begin so.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";
std::string event_file_name(double time);

// The scalars of a file as event_record() writes them; other parts of the format are passed over.
// Throws ConfigError with the byte where a record is torn or its check sum is another.
std::vector<Scalars> read_event_file(std::string_view bytes);

// What TensorBoard is to show of a line of metrics.jsonl: loss, lr, grad_norm, speed, MFU.
Scalars scalars_of(const MetricsLine& line);

}  // namespace tessera

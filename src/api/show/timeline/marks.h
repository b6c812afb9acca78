// The marks of a timeline: what the streams of a rank do when, few enough to be sent and drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// In the order of the numbers that JSON has for them.
enum class MarkKind : uint8_t {
  kForward,
  kBackward,  // both halves
  kInputGrad,
  kWeightGrad,
  kRecompute,
  kUpdate,
  kExposed,        // kernels wait for communication that is under way
  kCommunication,  // on a stream of its own, hidden or not
};
inline constexpr int kNumMarkKinds = 8;
std::string_view name_of(MarkKind kind);

struct Mark {
  double begin = 0, end = 0;
  MarkKind kind = MarkKind::kForward;
  int label = 0;         // in Labels
  int micro_batch = -1;  // -1: once per step
};

struct MarkRow {
  std::string stream;
  std::vector<Mark> marks;  // ascending, none over another
};

// Texts that many marks share, each once.
class Labels {
 public:
  int of(const std::string& text);
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, int> places_;
  std::vector<std::string> texts_;
};

size_t count_marks(const std::vector<std::vector<MarkRow>>& classes);

// How marks were joined until there were few enough.
struct Joined {
  double below_s = 0;  // 0: they were not
  bool across_micro_batches = false;
};
// Waits shorter than `below_s` become part of what lies around them, and neighbours of the same
// pass, micro-batch and label that are nearer to each other than that become one; where that is not
// enough also those of different micro-batches. `span_s` is the time of the whole. ConfigError
// where more than `most` are left.
Joined join_marks(std::vector<std::vector<MarkRow>>& classes, double span_s, size_t most,
                  Labels& labels);

// [[begin, end, kind, label, micro_batch], …]
nlohmann::ordered_json marks_json(const std::vector<MarkRow>& rows);
// The names of the kinds, by number.
nlohmann::ordered_json mark_kinds_json();

}  // namespace tessera

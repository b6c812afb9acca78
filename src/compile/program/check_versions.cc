#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/pipeline/weight_versions.h"
#include "compile/program/program.h"

namespace tessera {
namespace {

constexpr int kNothing = -1;

// The version that every byte holds: of the parameters, and of the memory that they are gathered
// into.
class VersionedBytes {
 public:
  void assign(const Buffer& buffer, int version) {
    Stretches& stretches = begins_[static_cast<size_t>(buffer.arena)];
    const int64_t end = buffer.offset + buffer.bytes();
    const int after = at(stretches, end);
    stretches.erase(stretches.lower_bound(buffer.offset), stretches.upper_bound(end));
    stretches[buffer.offset] = version;
    stretches[end] = after;
  }
  [[nodiscard]] std::set<int> in(const Buffer& buffer) const {
    const Stretches& stretches = begins_[static_cast<size_t>(buffer.arena)];
    std::set<int> found = {at(stretches, buffer.offset)};
    for (auto it = stretches.upper_bound(buffer.offset);
         it != stretches.end() && it->first < buffer.offset + buffer.bytes(); ++it) {
      found.insert(it->second);
    }
    return found;
  }

 private:
  using Stretches = std::map<int64_t, int>;  // first byte of a stretch of one version

  static int at(const Stretches& stretches, int64_t offset) {
    const auto next = stretches.upper_bound(offset);
    return next == stretches.begin() ? kNothing : std::prev(next)->second;
  }

  std::array<Stretches, kNumArenas> begins_;
};

class VersionReplay {
 public:
  VersionReplay(const Program& program, const StageVersions& versions)
      : program_(program), versions_(versions) {}

  void run() {
    for (const BucketBuffers& bucket : program_.buckets) {
      for (const BufferId id : {bucket.weights, bucket.full}) {
        if (id != kNoBuffer) bytes_.assign(program_.buffer(id), 0);
      }
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) visit(i);
    for (const BucketBuffers& bucket : program_.buckets) {
      for (const BufferId id : {bucket.weights, bucket.full}) {
        if (id == kNoBuffer) continue;
        const Buffer& buffer = program_.buffer(id);
        TESSERA_CHECK(bytes_.in(buffer) == std::set<int>{versions_.updates},
                      "rank {}: after the step '{}' holds version {}, not the newest ({})",
                      program_.rank, buffer.name, text(bytes_.in(buffer)), versions_.updates);
      }
    }
  }

 private:
  static std::string text(const std::set<int>& versions) {
    return fmt::format("{}", fmt::join(versions, "+"));
  }
  static bool may_hold_weights(const Buffer& buffer) {
    return buffer.arena == ArenaKind::kParameters || buffer.arena == ArenaKind::kCommunication;
  }

  void visit(size_t index) {
    const Instruction& instruction = program_.instructions[index];
    int moved = kNothing;  // by a copy or a gather
    for (const BufferId id : instruction.inputs) {
      const Buffer& buffer = program_.buffer(id);
      if (!may_hold_weights(buffer)) continue;
      const std::set<int> found = bytes_.in(buffer);
      if (found == std::set<int>{kNothing} && buffer.arena != ArenaKind::kParameters) continue;
      if (instruction.micro_batch >= 0) check_read(index, buffer, found);
      const bool moves = instruction.op == OpKind::kCast || instruction.op == OpKind::kCopy;
      if (moves && found.size() == 1) moved = *found.begin();
    }
    for (const BufferId id : instruction.outputs) {
      const Buffer& buffer = program_.buffer(id);
      if (!may_hold_weights(buffer)) continue;
      const bool makes = updates_weights(instruction.op) && buffer.arena == ArenaKind::kParameters;
      bytes_.assign(buffer, makes ? made_by(index, buffer) : moved);
    }
  }

  // Weights without a whole master copy are updated in place.
  [[nodiscard]] int made_by(size_t index, const Buffer& buffer) const {
    const Instruction& instruction = program_.instructions[index];
    const auto update = static_cast<int>(instruction.args.update);
    const bool from_master = has_whole_master(program_, instruction);
    TESSERA_CHECK(from_master || bytes_.in(buffer) == std::set<int>{update - 1},
                  "{} makes version {} of '{}' from version {}", describe(index), update,
                  buffer.name, text(bytes_.in(buffer)));
    return update;
  }

  void check_read(size_t index, const Buffer& buffer, const std::set<int>& found) const {
    const int micro_batch = program_.instructions[index].micro_batch;
    const int expected = versions_.version_of[static_cast<size_t>(micro_batch)];
    TESSERA_CHECK(found == std::set<int>{expected},
                  "{} of micro-batch {} reads version {} of '{}', but its forward reads version {}",
                  describe(index), micro_batch, text(found), buffer.name, expected);
  }

  [[nodiscard]] std::string describe(size_t index) const {
    const Instruction& i = program_.instructions[index];
    return fmt::format("instruction {} of rank {} ({} '{}', pass {})", index, program_.rank,
                       name_of(i.op), i.name, name_of(i.tag.pass));
  }

  const Program& program_;
  const StageVersions& versions_;
  VersionedBytes bytes_;
};

}  // namespace

void check_versions(const Program& program, const StageVersions& versions) {
  VersionReplay(program, versions).run();
}

}  // namespace tessera

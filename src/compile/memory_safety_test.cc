// An independent check that sharing memory never changes a value, in three parts: values in their
// storages, storages in their arenas, and the streams against each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "compile/lower/storage.h"
#include "compile/passes/passes.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

struct Case {
  const char* mesh;
  int64_t global_batch = 0;
  int64_t loss_chunk = 512;
  int64_t kv_heads = 4;
  bool tied = false;
  DType dtype = DType::kF32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.mesh; }

RunSpec spec_of(const Case& c) {
  RunSpec spec = small_spec(c.mesh);
  spec.train.global_batch = c.global_batch;
  spec.train.loss_chunk = c.loss_chunk;
  spec.train.dtype = c.dtype;
  spec.model.kv_heads = c.kv_heads;
  spec.model.tied = c.tied;
  spec.optimizer.clip = 0;  // no instruction depends on it, and asynchronous schedules want it so
  return resolved(spec);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"dp=1"},
      {"dp=1", 3, 4, 4, true},
      {"dp=3", 6, 3},
      {"dp=2,zero=1", 4},
      {"dp=2,zero=2", 4},
      {"dp=2,zero=3", 4, 512, 2, true},
      {"fsdp=2,prefetch=0"},
      {"fsdp=2,prefetch=3", 6, 4},
      {"fsdp=2,grad_reduce=step", 6},
      {"dp=2,fsdp=2,grad_reduce=micro_batch", 8, 4, 1},
      {"tp=2", 2, 4},
      {"tp=4", 2, 512, 2, true},
      {"tp=2,sequence_parallel=true", 3, 4, 4, true},
      {"tp=4,sequence_parallel=true", 1, 2, 1},
      {"dp=2,tp=2,zero=1,sequence_parallel=true", 4},
      {"fsdp=2,tp=2,prefetch=2,sequence_parallel=true", 4, 4, 4, true},
      {"dp=2,fsdp=2,tp=2,sequence_parallel=true", 8, 3, 4, false, DType::kBF16},
      {"pp=2", 4},
      {"pp=2,schedule=gpipe,tp=2,sequence_parallel=true", 3, 4, 4, true},
      {"pp=2,schedule=zb-h1,dp=2,zero=2", 8},
      {"pp=2,schedule=zb-v,stage_layers=0+1+1+0,fsdp=2", 8, 4, 4, true},
      {"pp=2,schedule=interleaved,virtual_stages=2,stage_layers=0+1+1+0,tp=2", 4},
      {"pp=2,schedule=pipedream,dp=2,zero=1", 8},
      {"pp=2,schedule=pipedream,fsdp=2,tp=2", 6, 4, 4, false, DType::kBF16},
      {"pp=2,schedule=pipedream-2bw,dp=2,grad_reduce=micro_batch", 8},
      {"dp=1,recompute=selective", 2, 4},
      {"dp=1,recompute=light", 1, 4, 4, true},
      {"dp=2,zero=1,recompute=light", 2, 4},
      {"dp=2,zero=2", 2, 512, 4, false, DType::kBF16},
      {"pp=2", 1, 4, 4, true},
      {"pp=2,schedule=zb-h1,dp=2", 2},
      {"dp=2,recompute=full", 4, 4, 2, true},
      {"fsdp=2,recompute=every-2", 4},
      {"tp=2,recompute=selective", 2},
      {"tp=2,sequence_parallel=true,recompute=selective", 2, 4, 4, true},
      {"fsdp=2,tp=2,prefetch=2,sequence_parallel=true,recompute=full", 4, 4, 2},
  };
  return kCases;
}

// ---- values in storages: every node reads what the producer of its input wrote ----

class ValueReplay {
 public:
  ValueReplay(const StepGraph& step, int rank)
      : step_(step), order_(nodes_of(step, rank)), map_(assign_storage(step, order_, rank)) {
    for (const Storage& storage : map_.storages) {
      memory_.emplace_back(static_cast<size_t>(storage.bytes), -1);
    }
  }

  // Names of the values that were overwritten before they were read.
  std::vector<std::string> run() {
    const std::vector<Node>& nodes = step_.graph().nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (order_.position_of[i] < 0) continue;  // of another rank of the pipeline
      const Node& node = nodes[i];
      // The update reads the kept gradient of a bucket; its sums share one buffer by design.
      if (node.tag.pass == Pass::kUpdate) continue;
      for (const ValueId in : node.inputs) {
        if (!written_.contains(in)) receive(in);
        check(in, node);
      }
      for (const ValueId out : node.outputs) {
        if (!renames(node)) fill(out);
        written_[out] = contents(map_.slots.at(out));
      }
    }
    return lost_;
  }

  StorageMap& map() { return map_; }

 private:
  [[nodiscard]] bool renames(const Node& node) const {
    constexpr std::array kWindows = {OpKind::kViews, OpKind::kPack, OpKind::kSlice,
                                     OpKind::kConcat};
    if (std::find(kWindows.begin(), kWindows.end(), node.op) != kWindows.end()) return true;
    if (node.op == OpKind::kParameter) {  // a tied copy on the rank of its original is the original
      return contents(map_.slots.at(node.outputs[0])).front() >= 0;
    }
    if (node.op != OpKind::kCast) return false;
    return !communicates(step_.graph(), node, step_.mesh) ||
           (node.attrs.bucket >= 0 && node.tag.pass != Pass::kReduce &&
            !step_.gathers_weights_per_use());
  }
  [[nodiscard]] std::vector<int> contents(const Slot& slot) const {
    const std::vector<int>& bytes = memory_[static_cast<size_t>(slot.storage)];
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(slot.offset);
    return {begin, begin + static_cast<std::ptrdiff_t>(slot.bytes())};
  }
  void fill(ValueId value) {
    const Slot slot = map_.slots.at(value);
    std::vector<int>& bytes = memory_[static_cast<size_t>(slot.storage)];
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(slot.offset);
    std::fill_n(begin, slot.bytes(), value);
  }
  void receive(ValueId value) {
    fill(value);
    written_[value] = contents(map_.slots.at(value));
  }
  void check(ValueId value, const Node& reader) {
    if (written_.at(value) == contents(map_.slots.at(value))) return;
    lost_.push_back(fmt::format("'{}' as read by {} '{}'", step_.graph().value(value).name,
                                name_of(reader.op), reader.name));
  }

  const StepGraph& step_;
  RankNodes order_;
  StorageMap map_;
  std::vector<std::vector<int>> memory_;  // per storage and byte: the value written last
  std::map<ValueId, std::vector<int>> written_;
  std::vector<std::string> lost_;
};

// ---- storages in arenas: every byte read was last written for the same storage ----

class ArenaReplay {
 public:
  ArenaReplay(const StepGraph& step, const Program& program) : program_(program) {
    const StorageMap map = assign_storage(step, program.rank);
    for (const auto& [value, slot] : map.slots) {
      storages_[step.graph().value(value).name].insert(slot.storage);
    }
    for (size_t s = 0; s < map.storages.size(); ++s) {
      storages_[map.storages[s].name].insert(static_cast<StorageId>(s));
    }
    for (const Bucket& bucket : step.layout.buckets) {
      const std::string full = "d(" + bucket.name + ").full";
      storages_[bucket.name + ".gap"] =
          storages_[storages_.contains(full) ? full : "d(" + bucket.name + ")"];
    }
    for (size_t a = 0; a < kNumArenas; ++a) {
      writer_[a].assign(static_cast<size_t>(program.arena_bytes[a]), kNoBuffer);
    }
  }

  std::vector<std::string> run() {
    for (const BufferId id : {program_.tokens, program_.labels}) {
      if (id != kNoBuffer) write(id);
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      for (const BufferId id : instruction.inputs) read(id, i);
      if (instruction.accumulate) read(instruction.outputs[0], i);
      for (const BufferId id : instruction.outputs) write(id);
      check_aliasing(i);
    }
    // Whoever looks at gradients does it after the step.
    for (const BucketBuffers& bucket : program_.buckets) {
      if (bucket.gradient != kNoBuffer) read(bucket.gradient, program_.instructions.size() - 1);
    }
    return problems_;
  }

 private:
  static bool is_shared(const Buffer& buffer) {
    return buffer.arena == ArenaKind::kActivations || buffer.arena == ArenaKind::kCommunication;
  }
  [[nodiscard]] std::set<StorageId> storages_of(BufferId id) const {
    const std::string& name = program_.buffer(id).name;
    if (id == program_.tokens || id == program_.labels) return storages_.at(name.substr(0, 6));
    return storages_.at(name);
  }
  void write(BufferId id) {
    const Buffer& b = program_.buffer(id);
    std::vector<BufferId>& bytes = writer_[static_cast<size_t>(b.arena)];
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(b.offset), b.bytes(), id);
  }
  void read(BufferId id, size_t index) {
    const Buffer& b = program_.buffer(id);
    if (!is_shared(b)) return;
    const std::vector<BufferId>& bytes = writer_[static_cast<size_t>(b.arena)];
    std::set<BufferId> writers;
    for (int64_t at = b.offset; at < b.offset + b.bytes(); ++at) {
      writers.insert(bytes[static_cast<size_t>(at)]);
    }
    const std::set<StorageId> mine = storages_of(id);
    for (const BufferId writer : writers) {
      std::vector<StorageId> common;
      if (writer != kNoBuffer) {
        const std::set<StorageId> theirs = storages_of(writer);
        std::set_intersection(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                              std::back_inserter(common));
      }
      if (!common.empty()) continue;
      problems_.push_back(fmt::format(
          "instruction {} '{}' reads '{}' but finds '{}'", index, program_.instructions[index].name,
          b.name, writer == kNoBuffer ? "nothing" : program_.buffer(writer).name));
    }
  }
  // Only these kernels may write over what they read, with their first output.
  void check_aliasing(size_t index) {
    const Instruction& i = program_.instructions[index];
    static const std::set<OpKind> kInPlace = {
        OpKind::kRope,       OpKind::kCrossEntropyGrad, OpKind::kSwiGluGrad, OpKind::kAdd,
        OpKind::kAddRmsNorm, OpKind::kRmsNormDx,        OpKind::kCast,       OpKind::kTieSum};
    for (const BufferId in : i.inputs) {
      for (const BufferId out : i.outputs) {
        const Buffer& a = program_.buffer(in);
        const Buffer& b = program_.buffer(out);
        const bool apart = a.arena != b.arena || a.offset >= b.offset + b.bytes() ||
                           b.offset >= a.offset + a.bytes();
        const bool exactly = a.offset == b.offset && a.bytes() == b.bytes();
        const bool may = kInPlace.contains(i.op) && out == i.outputs[0];
        if (apart || (may && (exactly || i.op == OpKind::kCast))) continue;
        problems_.push_back(fmt::format("instruction {} '{}' writes '{}' over its input '{}'",
                                        index, i.name, b.name, a.name));
      }
    }
  }

  const Program& program_;
  std::map<std::string, std::set<StorageId>> storages_;
  std::array<std::vector<BufferId>, kNumArenas> writer_;
  std::vector<std::string> problems_;
};

// ---- streams: whatever two touch is ordered, however late one runs ----

bool touch(const Program& program, const std::vector<BufferId>& a, const std::vector<BufferId>& b) {
  for (const BufferId x : a) {
    for (const BufferId y : b) {
      const Buffer& p = program.buffer(x);
      const Buffer& q = program.buffer(y);
      if (p.arena == q.arena &&
          std::max(p.offset, q.offset) < std::min(p.offset + p.bytes(), q.offset + q.bytes())) {
        return true;
      }
    }
  }
  return false;
}

// Every pair of instructions of different streams that touch the same bytes, one of them writing,
// and that may run at the same time or in the wrong order.
std::vector<std::string> races(const Program& program) {
  const std::vector<Instruction>& list = program.instructions;
  // before[j][i]: i is certainly done when j starts, by the order of streams and by events.
  std::vector<std::vector<bool>> before(list.size(), std::vector<bool>(list.size(), false));
  std::map<int, size_t> signaller;
  std::map<StreamKind, size_t> previous;
  for (size_t j = 0; j < list.size(); ++j) {
    const auto follows = [&](size_t i) {
      before[j][i] = true;
      for (size_t k = 0; k < i; ++k) before[j][k] = before[j][k] || before[i][k];
    };
    if (const auto last = previous.find(list[j].stream); last != previous.end()) {
      follows(last->second);
    }
    for (const int event : list[j].waits) {
      if (signaller.contains(event)) follows(signaller[event]);
    }
    previous[list[j].stream] = j;
    if (list[j].signal >= 0) signaller[list[j].signal] = j;
  }
  std::vector<std::string> found;
  for (size_t late = 0; late < list.size(); ++late) {
    for (size_t early = 0; early < late; ++early) {
      if (before[late][early]) continue;
      if (touch(program, list[early].outputs, list[late].inputs) ||
          touch(program, list[early].outputs, list[late].outputs) ||
          touch(program, list[early].inputs, list[late].outputs)) {
        found.push_back(
            fmt::format("{} '{}' and {} '{}'", early, list[early].name, late, list[late].name));
      }
    }
  }
  return found;
}

class MemorySafety : public ::testing::TestWithParam<Case> {
 protected:
  MemorySafety() : step_(build_step(spec_of(GetParam()), StepKind::kTraining)) {}
  StepGraph step_;
};

TEST_P(MemorySafety, EveryNodeReadsWhatItsProducerWrote) {
  for (const int rank : {0, static_cast<int>(step_.mesh.world()) - 1}) {
    ValueReplay replay(step_, rank);
    EXPECT_EQ(replay.run(), std::vector<std::string>());
  }
}

TEST_P(MemorySafety, StoragesThatShareMemoryAreNeverAliveTogether) {
  for (const int rank : {0, static_cast<int>(step_.mesh.world()) - 1}) {
    EXPECT_EQ(ArenaReplay(step_, lower(step_, rank)).run(), std::vector<std::string>());
  }
}

TEST_P(MemorySafety, StreamsNeverRace) {
  for (const int rank : {0, static_cast<int>(step_.mesh.world()) - 1}) {
    EXPECT_EQ(races(lower(step_, rank)), std::vector<std::string>());
  }
}

// Takes every wait away in turn. check_program must see a race exactly where the slow search does.
TEST_P(MemorySafety, CheckProgramFindsExactlyTheRacesOfAMissingWait) {
  const Program good = lower(step_, 0);
  size_t removed = 0;
  size_t racing = 0;
  for (size_t i = 0; i < good.instructions.size(); ++i) {
    if (good.instructions[i].waits.empty()) continue;
    Program bad = good;
    bad.instructions[i].waits.clear();
    ++removed;
    const bool race = !races(bad).empty();
    racing += race ? 1 : 0;
    bool caught = false;
    try {
      check_program(bad);
    } catch (const InternalError& e) {
      caught = std::string(e.what()).find("without waiting") != std::string::npos;
    }
    EXPECT_EQ(caught, race) << "wait of instruction " << i << " '" << good.instructions[i].name
                            << "'";
  }
  if (step_.mesh.world() > 1) {
    EXPECT_GT(racing, removed / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, MemorySafety, ::testing::ValuesIn(cases()));

TEST(MemorySafetyControl, InferenceIsSafeToo) {
  for (const char* mesh : {"dp=1", "tp=2,sequence_parallel=true", "fsdp=2"}) {
    const StepGraph step = build_step(resolved(small_spec(mesh)), StepKind::kForward);
    const Program program = lower(step, 0);
    EXPECT_EQ(ArenaReplay(step, program).run(), std::vector<std::string>());
    EXPECT_EQ(races(program), std::vector<std::string>());
  }
}

// An addition may overwrite one of its terms, but not one that the backward pass reads again.
TEST(MemorySafetyControl, ATermThatIsReadAgainIsNotOverwritten) {
  const StepGraph step = build_step(resolved(small_spec("tp=2")), StepKind::kTraining,
                                    [](const std::string& pass, Graph& graph) {
                                      if (pass != "build_transformer") return;
                                      for (Node& node : graph.mutable_nodes()) {
                                        if (node.op != OpKind::kAdd) continue;
                                        std::swap(node.inputs[0], node.inputs[1]);
                                      }
                                    });
  EXPECT_EQ(ValueReplay(step, 0).run(), std::vector<std::string>());
}

// The checks themselves can fail: two values in one place, two storages in one place.
TEST(MemorySafetyControl, ReplaysFindPlantedOverlaps) {
  const StepGraph step = build_step(resolved(small_spec("dp=2,tp=2")), StepKind::kTraining);
  ValueReplay replay(step, 0);
  std::map<std::string, ValueId> values;
  for (const auto& [value, slot] : replay.map().slots)
    values[step.graph().value(value).name] = value;
  replay.map().slots[values.at("layers.0.q.rope")] =
      replay.map().slots[values.at("layers.1.q.rope")];
  const std::vector<std::string> lost = replay.run();
  ASSERT_FALSE(lost.empty());
  EXPECT_NE(lost.front().find("layers.0.q.rope"), std::string::npos) << lost.front();

  Program program = lower(step, 0);
  Buffer* gate = nullptr;
  Buffer* down = nullptr;
  for (Buffer& buffer : program.buffers) {
    if (buffer.name == "layers.0.gate_up") gate = &buffer;
    if (buffer.name == "layers.1.gate_up") down = &buffer;
  }
  ASSERT_NE(gate, nullptr);
  ASSERT_NE(down, nullptr);
  down->offset = gate->offset;
  EXPECT_FALSE(ArenaReplay(step, program).run().empty());
}

}  // namespace
}  // namespace tessera

#include "compile/program/check_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace tessera {
namespace {

std::string describe(const Program& program, size_t index) {
  const Instruction& i = program.instructions[index];
  return fmt::format("instruction {} of rank {} ({} '{}')", index, program.rank, name_of(i.op),
                     i.name);
}

// Byte ranges of one arena that have been written so far.
class Written {
 public:
  void add(int64_t begin, int64_t end) {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second >= begin) {
      --it;
      begin = it->first;
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    while (it != ranges_.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    ranges_[begin] = end;
  }
  [[nodiscard]] bool covers(int64_t begin, int64_t end) const {
    auto it = ranges_.upper_bound(begin);
    if (it == ranges_.begin()) return begin == end;
    return std::prev(it)->second >= end;
  }

 private:
  std::map<int64_t, int64_t> ranges_;
};

bool is_state(ArenaKind arena) {
  return arena == ArenaKind::kParameters || arena == ArenaKind::kOptimizer ||
         arena == ArenaKind::kWorkspace || arena == ArenaKind::kCache;
}

bool overlap(const Buffer& a, const Buffer& b) {
  return a.arena == b.arena && a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
}

bool any_overlap(const Program& program, const std::vector<BufferId>& a,
                 const std::vector<BufferId>& b) {
  for (const BufferId x : a) {
    for (const BufferId y : b) {
      if (overlap(program.buffer(x), program.buffer(y))) return true;
    }
  }
  return false;
}

// Who touched each byte of the arenas last, as numbers that grow.
class NewestUse {
 public:
  void assign(const Buffer& buffer, size_t use) {
    if (buffer.bytes() == 0) return;
    Stretches& stretches = begins_[static_cast<size_t>(buffer.arena)];
    const int64_t end = buffer.offset + buffer.bytes();
    const size_t after = at(stretches, end);
    stretches.erase(stretches.lower_bound(buffer.offset), stretches.upper_bound(end));
    stretches[buffer.offset] = use;
    stretches[end] = after;
  }
  // 0: nobody.
  [[nodiscard]] size_t in(const Buffer& buffer) const {
    const Stretches& stretches = begins_[static_cast<size_t>(buffer.arena)];
    if (stretches.empty() || buffer.bytes() == 0) return 0;
    size_t newest = at(stretches, buffer.offset);
    for (auto it = stretches.upper_bound(buffer.offset);
         it != stretches.end() && it->first < buffer.offset + buffer.bytes(); ++it) {
      newest = std::max(newest, it->second);
    }
    return newest;
  }

 private:
  using Stretches = std::map<int64_t, size_t>;  // first byte of a stretch with one last use

  static size_t at(const Stretches& stretches, int64_t offset) {
    const auto next = stretches.upper_bound(offset);
    return next == stretches.begin() ? 0 : std::prev(next)->second;
  }

  std::array<Stretches, kNumArenas> begins_;
};

// Two instructions of different streams that touch the same bytes, one of them writing, need an
// event between them, or a chain of events.
class StreamOrder {
 public:
  explicit StreamOrder(const Program& program)
      : program_(program), signaller_(static_cast<size_t>(program.num_events)) {}

  void visit(size_t index) {
    const Instruction& instruction = program_.instructions[index];
    const auto mine = static_cast<size_t>(instruction.stream);
    Clock& done = done_[mine];
    for (const int event : instruction.waits) {
      const size_t other = signaller_[static_cast<size_t>(event)];
      TESSERA_CHECK(program_.instructions[other].stream != instruction.stream,
                    "{} waits for its own stream", describe(program_, index));
      for (size_t s = 0; s < kNumStreams; ++s) done[s] = std::max(done[s], after_[other][s]);
    }
    for (size_t s = 0; s < kNumStreams; ++s) {
      if (s != mine && meets_running(instruction, s, done[s])) check_against(index, s, done[s]);
    }
    started_[mine].push_back(index);
    done[mine] = started_[mine].size();
    for (const BufferId id : instruction.inputs)
      read_[mine].assign(program_.buffer(id), done[mine]);
    for (const BufferId id : instruction.outputs) {
      written_[mine].assign(program_.buffer(id), done[mine]);
    }
    after_.push_back(done);
    if (instruction.signal >= 0) signaller_[static_cast<size_t>(instruction.signal)] = index;
  }

 private:
  using Clock =
      std::array<size_t, kNumStreams>;  // by stream, how many of its instructions are done

  // Whether it may touch bytes of an instruction of that stream which is not known to be done: the
  // newest one to touch them decides.
  [[nodiscard]] bool meets_running(const Instruction& instruction, size_t stream,
                                   size_t done) const {
    if (done == started_[stream].size()) return false;
    for (const BufferId id : instruction.inputs) {
      if (written_[stream].in(program_.buffer(id)) > done) return true;
    }
    for (const BufferId id : instruction.outputs) {
      const Buffer& buffer = program_.buffer(id);
      if (written_[stream].in(buffer) > done || read_[stream].in(buffer) > done) return true;
    }
    return false;
  }

  // Says which one.
  void check_against(size_t index, size_t stream, size_t first_running) {
    const Instruction& instruction = program_.instructions[index];
    for (size_t i = first_running; i < started_[stream].size(); ++i) {
      const size_t other = started_[stream][i];
      const Instruction& running = program_.instructions[other];
      TESSERA_CHECK(!any_overlap(program_, instruction.outputs, running.outputs) &&
                        !any_overlap(program_, instruction.outputs, running.inputs) &&
                        !any_overlap(program_, instruction.inputs, running.outputs),
                    "{} touches memory of {} without waiting for it", describe(program_, index),
                    describe(program_, other));
    }
  }

  const Program& program_;
  std::vector<size_t> signaller_;
  std::array<Clock, kNumStreams> done_{};  // by the stream that has waited
  std::vector<Clock> after_;               // by instruction: what is done when it is done
  std::array<std::vector<size_t>, kNumStreams> started_;
  std::array<NewestUse, kNumStreams> read_, written_;  // by stream, as how many had started
};

}  // namespace

void check_program(const Program& program) {
  std::array<Written, kNumArenas> written;
  const auto mark = [&](BufferId id) {
    const Buffer& b = program.buffer(id);
    written[static_cast<size_t>(b.arena)].add(b.offset, b.offset + b.bytes());
  };
  const ServeBuffers& serve = program.serve;
  for (const BufferId input :
       {program.tokens, program.labels, program.document_starts, serve.positions, serve.slots,
        serve.first_row, serve.kv_len, serve.pages, serve.rows}) {
    if (input != kNoBuffer) mark(input);
  }
  // Padding of persistent gradients is zero from the start.
  for (const BucketBuffers& bucket : program.buckets) {
    const bool persistent = bucket.gradient != kNoBuffer &&
                            program.buffer(bucket.gradient).arena == ArenaKind::kGradients;
    if (persistent) mark(bucket.gradient);
  }
  std::set<int> signalled;
  StreamOrder order(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const int event : instruction.waits) {
      TESSERA_CHECK(signalled.contains(event),
                    "{} waits for event {} that nobody signals before it", describe(program, i),
                    event);
    }
    for (const BufferId id : instruction.inputs) {
      const Buffer& b = program.buffer(id);
      const auto arena = static_cast<size_t>(b.arena);
      TESSERA_CHECK(b.offset >= 0 && b.offset + b.bytes() <= program.arena_bytes[arena],
                    "{} reads '{}' outside its arena", describe(program, i), b.name);
      const bool whole = instruction.op == OpKind::kCast || instruction.op == OpKind::kAccumulate;
      const bool gradient = b.arena == ArenaKind::kGradients && whole;
      TESSERA_CHECK(
          is_state(b.arena) || gradient || written[arena].covers(b.offset, b.offset + b.bytes()),
          "{} reads '{}' before it is written", describe(program, i), b.name);
    }
    for (const BufferId id : instruction.outputs) {
      const Buffer& b = program.buffer(id);
      TESSERA_CHECK(b.offset >= 0 &&
                        b.offset + b.bytes() <= program.arena_bytes[static_cast<size_t>(b.arena)],
                    "{} writes '{}' outside its arena", describe(program, i), b.name);
      mark(id);
    }
    if (instruction.signal >= 0) {
      TESSERA_CHECK(instruction.signal < program.num_events, "{} signals event {} of {}",
                    describe(program, i), instruction.signal, program.num_events);
      TESSERA_CHECK(signalled.insert(instruction.signal).second, "event {} is signalled twice",
                    instruction.signal);
    }
    order.visit(i);
  }
}

namespace {

// What one rank sends to another is what the other receives from it, in the same order.
void check_messages(const std::vector<Program>& programs) {
  using Pair = std::pair<int, int>;  // from, to
  std::map<Pair, std::vector<std::string>> sent;
  std::map<Pair, std::vector<std::string>> received;
  for (const Program& program : programs) {
    for (const Instruction& i : program.instructions) {
      if (i.stream != StreamKind::kPipe) continue;
      const bool send = i.op == OpKind::kSend;
      const Buffer& data = program.buffer(send ? i.inputs[0] : i.outputs[0]);
      const int peer = members_of(program, group_of(i))[static_cast<size_t>(i.peer)];
      const Pair pair = send ? Pair(program.rank, peer) : Pair(peer, program.rank);
      (send ? sent : received)[pair].push_back(fmt::format("'{}' of micro-batch {} ({}, {})",
                                                           i.name, i.micro_batch,
                                                           name_of(data.dtype), numel(data.shape)));
    }
  }
  for (const auto* lists : {&sent, &received}) {
    for (const auto& [pair, list] : *lists) {
      const std::vector<std::string>& out = sent[pair];
      const std::vector<std::string>& in = received[pair];
      for (size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
        const std::string left = i < out.size() ? out[i] : "nothing";
        const std::string right = i < in.size() ? in[i] : "nothing";
        TESSERA_CHECK(left == right, "message {} from rank {} to {}: {} is sent, {} is received", i,
                      pair.first, pair.second, left, right);
      }
    }
  }
}

}  // namespace

void check_collectives(const std::vector<Program>& programs) {
  using Group = std::pair<std::string, std::vector<int>>;                        // name and members
  std::map<Group, std::vector<std::pair<int, std::vector<std::string>>>> calls;  // rank, its calls
  for (const Program& program : programs) {
    std::map<GroupId, std::vector<std::string>> mine;
    for (const Instruction& i : program.instructions) {
      if (!has_collectives(i.stream)) continue;
      const Buffer& in = program.buffer(i.inputs[0]);
      mine[group_of(i)].push_back(fmt::format("{}{}({}, {}) '{}'", collective_name(i.collective),
                                              i.maximum ? " max" : "", name_of(in.dtype),
                                              numel(in.shape), i.name));
    }
    for (auto& [id, list] : mine) {
      calls[{name_of(id), members_of(program, id)}].emplace_back(program.rank, std::move(list));
    }
  }
  check_messages(programs);
  for (const auto& [group, lists] : calls) {
    TESSERA_CHECK(lists.size() == group.second.size(), "only {} of {} ranks use group {}",
                  lists.size(), group.second.size(), group.first);
    for (const auto& [rank, list] : lists) {
      const auto& [first, expected] = lists.front();
      TESSERA_CHECK(list.size() == expected.size(),
                    "group {}: rank {} makes {} calls but rank {} makes {}", group.first, rank,
                    list.size(), first, expected.size());
      for (size_t i = 0; i < list.size(); ++i) {
        TESSERA_CHECK(list[i] == expected[i],
                      "group {}: call {} of rank {} is {} but of rank {} {}", group.first, i, rank,
                      list[i], first, expected[i]);
      }
    }
  }
}

}  // namespace tessera

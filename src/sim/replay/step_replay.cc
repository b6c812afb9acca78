#include "sim/replay/step_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "base/index.h"
#include "base/text/ranks_text.h"
#include "sim/replay/replay_size.h"

namespace tessera {
namespace {

enum Direction : uint8_t { kOut, kIn };
constexpr int kNumDirections = 2;

// Work that goes on at a rate which others may change.
struct Activity {
  double left_s = 0;  // at full rate
  double rate = 0;    // 0: not going on
  double since = 0;   // when `left_s` was true
  uint32_t version = 0;

  void settle(double now) {
    left_s = std::max(0.0, left_s - (now - since) * rate);
    since = now;
  }
};

// One side of a collective or a message.
struct Party {
  int of_class = 0;
  size_t instruction = 0;
  auto operator<=>(const Party&) const = default;
};

struct Transfer {
  Activity activity;
  std::vector<Party> parties;
  int level = 0;
  double wire_s = 0;  // what follows the latency
  double kernel_share = 0;
  bool on_wire = false;
};

// Whom the instructions of one class meet in a group.
struct Meeting {
  int channel = 0;
  std::vector<int> ranks;  // all that take part, from where the class's first rank stands
};

// Where instructions of several classes meet, in the order of their streams.
struct Channel {
  size_t expected = 0;  // parties
  std::vector<Party> arrived = {};
};

class Replay {
 public:
  Replay(const RankPrograms& programs, const Times& times, const ReplayOptions& options,
         RankClasses classes)
      : programs_(programs), times_(times), options_(options) {
    timeline_.mesh = programs.mesh;
    timeline_.classes = std::move(classes);
    timeline_.lost = options.lost;
    for (int c = 0; c < timeline_.classes.count(); ++c) add_class(c);
    share_links();
  }

  StepTimeline run() {
    for (int c = 0; c < num_classes(); ++c) {
      for (int stream = 0; stream < kNumStreams; ++stream) look_at(c, stream);
    }
    while (!queue_.empty()) {
      const Due due = queue_.top();
      queue_.pop();
      if (due.version != activity_of(due.id).version) continue;
      if (is_after_loss(due)) continue;
      now_ = due.time;
      if (due.id < num_classes()) {
        finish_kernel(due.id);
      } else {
        advance_transfer(static_cast<size_t>(due.id - num_classes()));
      }
    }
    finish();
    return std::move(timeline_);
  }

 private:
  struct Stream {
    std::vector<size_t> instructions;
    size_t next = 0;
    bool busy = false;
  };
  struct LinkUser {
    int of_class = 0;
    int count = 0;  // its ranks on that link
  };
  struct ClassState {
    const Program* program = nullptr;
    std::array<Stream, kNumStreams> streams;
    std::vector<bool> signalled;                         // by event
    std::vector<std::array<bool, kNumStreams>> awaited;  // by event: streams that stand at it
    std::vector<double> kernel_s;                        // by instruction
    std::vector<Meeting> meetings;
    std::vector<int> meeting;  // by instruction, -1: none
    Activity kernel;
    size_t running = 0;             // the instruction of `kernel`
    std::vector<size_t> transfers;  // on the wire
    bool lost = false;
    // By level: who is slowed down by transfers of this class, and how many cross its own links.
    std::vector<std::vector<LinkUser>> link_users;
    std::vector<std::array<int, kNumDirections>> load;
  };
  // Kernels of class c have id c, transfers the ids behind them.
  struct Due {
    double time = 0;
    int id = 0;
    uint32_t version = 0;
    bool operator>(const Due& other) const {
      return std::tie(time, id, version) > std::tie(other.time, other.id, other.version);
    }
  };

  [[nodiscard]] int num_classes() const { return timeline_.classes.count(); }
  [[nodiscard]] int representative(int of_class) const {
    return timeline_.classes.representative(of_class);
  }

  void add_class(int of_class) {
    const int rank = representative(of_class);
    const Program& program = programs_.program(rank);
    ClassState state;
    state.program = &program;
    state.lost = options_.lost.has_value() && options_.lost->rank == rank;
    state.signalled.assign(index(program.num_events), false);
    state.awaited.assign(index(program.num_events), {});
    double factor = 1;
    for (const SlowRank& slow : options_.slow) {
      if (slow.rank == rank) factor *= slow.factor;
    }
    std::map<std::tuple<StreamKind, OpKind, GroupId, int>, int> known;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      state.streams[static_cast<size_t>(instruction.stream)].instructions.push_back(i);
      const bool kernel = instruction.stream == StreamKind::kCompute;
      state.kernel_s.push_back(kernel ? factor * times_.kernel_s(program, instruction) : 0);
      state.meeting.push_back(-1);
      if (kernel) continue;
      const OpKind direction =
          instruction.stream == StreamKind::kPipe ? instruction.op : OpKind::kCast;
      const auto key =
          std::tuple(instruction.stream, direction, group_of(instruction), instruction.peer);
      const auto [found, is_new] = known.try_emplace(key, static_cast<int>(state.meetings.size()));
      if (is_new) state.meetings.push_back(meeting_of(of_class, rank, instruction));
      state.meeting.back() = found->second;
    }
    timeline_.ranks.push_back({timeline_.classes.ranks[index(of_class)], &program,
                               std::vector<InstructionTime>(program.instructions.size())});
    classes_.push_back(std::move(state));
  }

  Meeting meeting_of(int of_class, int rank, const Instruction& instruction) {
    const GroupId group = group_of(instruction);
    std::vector<int> members = group_members(programs_, rank, group);
    std::vector<int> met;  // classes
    if (instruction.stream == StreamKind::kPipe) {
      const int peer_rank = members[index(instruction.peer)];
      const int peer = timeline_.classes.of_rank[index(peer_rank)];
      const bool sends = instruction.op == OpKind::kSend;
      met = sends ? std::vector{of_class, peer} : std::vector{peer, of_class};
      members = {std::min(rank, peer_rank), std::max(rank, peer_rank)};
    } else {
      for (const int member : members) met.push_back(timeline_.classes.of_rank[index(member)]);
      std::sort(met.begin(), met.end());
      met.erase(std::unique(met.begin(), met.end()), met.end());
    }
    const auto key = std::tuple(instruction.stream, group, met);
    const auto [found, is_new] = channel_ids_.try_emplace(key, static_cast<int>(channels_.size()));
    if (is_new) channels_.push_back({.expected = met.size()});
    return {found->second, std::move(members)};
  }

  void share_links() {
    const int levels = times_.num_levels();
    std::map<std::pair<int, int>, std::map<int, int>> users;  // of a link: ranks of each class
    for (int level = 0; level < levels; ++level) {
      for (int rank = 0; rank < programs_.world(); ++rank) {
        ++users[{level, times_.link_of(rank, level)}][timeline_.classes.of_rank[index(rank)]];
      }
    }
    for (ClassState& state : classes_) {
      state.link_users.resize(index(levels));
      state.load.resize(index(levels));
    }
    for (int c = 0; c < num_classes(); ++c) {
      for (int level = 0; level < levels; ++level) {
        const int link = times_.link_of(representative(c), level);
        for (const auto& [user, count] : users[{level, link}]) {
          classes_[index(user)].link_users[index(level)].push_back({c, count});
        }
      }
    }
  }

  Activity& activity_of(int id) {
    return id < num_classes() ? classes_[index(id)].kernel
                              : transfers_[index(id - num_classes())].activity;
  }

  [[nodiscard]] bool is_after_loss(const Due& due) const {
    if (!options_.lost.has_value() || due.time <= options_.lost->at_s) return false;
    if (due.id < num_classes()) return classes_[index(due.id)].lost;
    const Transfer& transfer = transfers_[index(due.id - num_classes())];
    return std::any_of(transfer.parties.begin(), transfer.parties.end(),
                       [&](const Party& party) { return classes_[index(party.of_class)].lost; });
  }

  void schedule(int id) {
    Activity& activity = activity_of(id);
    ++activity.version;
    queue_.push({activity.since + activity.left_s / activity.rate, id, activity.version});
  }

  // The next instruction of a stream begins if it can; otherwise whoever it waits for comes back.
  void look_at(int of_class, int stream_index) {
    ClassState& state = classes_[index(of_class)];
    Stream& stream = state.streams[index(stream_index)];
    if (stream.busy || stream.next == stream.instructions.size()) return;
    if (state.lost && now_ > options_.lost->at_s) return;
    const size_t at = stream.instructions[stream.next];
    const Instruction& instruction = state.program->instructions[at];
    for (const int event : instruction.waits) {
      if (state.signalled[index(event)]) continue;
      state.awaited[index(event)][index(stream_index)] = true;
      return;
    }
    stream.busy = true;
    timeline_.ranks[index(of_class)].times[at].begin = now_;
    if (instruction.stream == StreamKind::kCompute) {
      begin_kernel(of_class, at);
    } else {
      arrive(of_class, at);
    }
  }

  void begin_kernel(int of_class, size_t at) {
    ClassState& state = classes_[index(of_class)];
    timeline_.ranks[index(of_class)].times[at].active = now_;
    state.running = at;
    state.kernel.left_s = state.kernel_s[at];
    state.kernel.since = now_;
    occupy_cores(state.program->threads);
    state.kernel.rate = kernel_rate(state);
    schedule(of_class);
  }

  [[nodiscard]] double kernel_rate(const ClassState& state) const {
    double lost = 0;
    for (const size_t id : state.transfers) lost = std::max(lost, transfers_[id].kernel_share);
    return (1 - lost) *
           core_rate(state.program->instructions[state.running], state.program->threads);
  }

  // The rate of an instruction whose time was given for its own `threads` alone.
  [[nodiscard]] double core_rate(const Instruction& instruction, int threads) const {
    if (!times_.shares_cores() || threads == threads_at_work_) return 1;
    return times_.core_slowdown(instruction, threads) /
           times_.core_slowdown(instruction, threads_at_work_);
  }

  // Threads of an instruction that begins; below 0: of one that has ended.
  void occupy_cores(int threads) {
    threads_at_work_ += threads;
    if (!times_.shares_cores()) return;
    for (int c = 0; c < num_classes(); ++c) slow_kernel(c);
    for (size_t id = 0; id < transfers_.size(); ++id) {
      if (transfers_[id].activity.rate > 0) set_rate(id);
    }
  }

  void finish_kernel(int of_class) {
    ClassState& state = classes_[index(of_class)];
    state.kernel.rate = 0;
    occupy_cores(-state.program->threads);
    end_instruction(of_class, state.running);
  }

  void end_instruction(int of_class, size_t at) {
    ClassState& state = classes_[index(of_class)];
    const Instruction& instruction = state.program->instructions[at];
    timeline_.ranks[index(of_class)].times[at].end = now_;
    timeline_.makespan = std::max(timeline_.makespan, now_);
    const int own = static_cast<int>(instruction.stream);
    state.streams[index(own)].busy = false;
    ++state.streams[index(own)].next;
    std::array<bool, kNumStreams> look = {};
    look[index(own)] = true;
    if (instruction.signal >= 0) {
      state.signalled[index(instruction.signal)] = true;
      for (int stream = 0; stream < kNumStreams; ++stream) {
        if (state.awaited[index(instruction.signal)][index(stream)]) look[index(stream)] = true;
      }
    }
    for (int stream = 0; stream < kNumStreams; ++stream) {
      if (look[index(stream)]) look_at(of_class, stream);
    }
  }

  void arrive(int of_class, size_t at) {
    Channel& channel = channels_[index(meeting_of(Party{of_class, at}).channel)];
    channel.arrived.push_back({of_class, at});
    if (channel.arrived.size() < channel.expected) return;
    std::vector<Party> parties = std::move(channel.arrived);
    channel.arrived.clear();
    std::sort(parties.begin(), parties.end());
    begin_transfer(std::move(parties));
  }

  [[nodiscard]] const Instruction& instruction_of(const Party& party) const {
    return classes_[index(party.of_class)].program->instructions[party.instruction];
  }

  // The sender of a message; the first party of a collective.
  [[nodiscard]] const Party& speaker(const std::vector<Party>& parties) const {
    for (const Party& party : parties) {
      if (instruction_of(party).op == OpKind::kSend) return party;
    }
    return parties.front();
  }

  [[nodiscard]] const Meeting& meeting_of(const Party& party) const {
    const ClassState& state = classes_[index(party.of_class)];
    return state.meetings[index(state.meeting[party.instruction])];
  }

  void begin_transfer(std::vector<Party> parties) {
    const Party& speaks = speaker(parties);
    const TransferTime time = times_.transfer(*classes_[index(speaks.of_class)].program,
                                              instruction_of(speaks), meeting_of(speaks).ranks);
    for (const Party& party : parties) {
      timeline_.ranks[index(party.of_class)].times[party.instruction].active = now_;
    }
    size_t id = transfers_.size();
    if (free_transfers_.empty()) {
      transfers_.emplace_back();
    } else {
      id = free_transfers_.back();
      free_transfers_.pop_back();
    }
    Transfer& transfer = transfers_[id];
    transfer.parties = std::move(parties);
    transfer.level = time.level;
    transfer.wire_s = time.wire_s;
    transfer.kernel_share = time.kernel_share;
    transfer.on_wire = false;
    transfer.activity.left_s = time.latency_s;
    transfer.activity.since = now_;
    occupy_cores(threads_of(transfer));
    set_rate(id);
  }

  // Each side has one at work.
  [[nodiscard]] static int threads_of(const Transfer& transfer) {
    return static_cast<int>(transfer.parties.size());
  }

  // From latency to the wire, and from there to the end.
  void advance_transfer(size_t id) {
    Transfer& transfer = transfers_[id];
    if (!transfer.on_wire) {
      transfer.on_wire = true;
      transfer.activity.left_s = transfer.wire_s;
      transfer.activity.since = now_;
      for (const Party& party : transfer.parties) {
        classes_[index(party.of_class)].transfers.push_back(id);
      }
      change_load(transfer, +1);
      return;
    }
    for (const Party& party : transfer.parties) {
      std::erase(classes_[index(party.of_class)].transfers, id);
    }
    change_load(transfer, -1);
    transfer.activity.rate = 0;
    ++transfer.activity.version;
    occupy_cores(-threads_of(transfer));
    const std::vector<Party> parties = std::move(transfer.parties);
    free_transfers_.push_back(id);
    for (const Party& party : parties) end_instruction(party.of_class, party.instruction);
  }

  [[nodiscard]] bool uses(const Party& party, Direction direction) const {
    const OpKind op = instruction_of(party).op;
    if (op == OpKind::kSend) return direction == kOut;
    if (op == OpKind::kReceive) return direction == kIn;
    return true;
  }

  void change_load(const Transfer& transfer, int by) {
    std::vector<size_t> affected;
    for (const Party& party : transfer.parties) {
      ClassState& state = classes_[index(party.of_class)];
      slow_kernel(party.of_class);
      for (const LinkUser& user : state.link_users[index(transfer.level)]) {
        ClassState& other = classes_[index(user.of_class)];
        for (const Direction direction : {kOut, kIn}) {
          if (uses(party, direction)) {
            other.load[index(transfer.level)][direction] += by * user.count;
          }
        }
        for (const size_t id : other.transfers) {
          if (transfers_[id].level == transfer.level) affected.push_back(id);
        }
      }
    }
    std::sort(affected.begin(), affected.end());
    affected.erase(std::unique(affected.begin(), affected.end()), affected.end());
    for (const size_t id : affected) set_rate(id);
  }

  void slow_kernel(int of_class) {
    ClassState& state = classes_[index(of_class)];
    if (state.kernel.rate == 0) return;
    const double rate = kernel_rate(state);
    if (state.kernel.rate == rate) return;
    state.kernel.settle(now_);
    state.kernel.rate = rate;
    schedule(of_class);
  }

  void set_rate(size_t id) {
    Transfer& transfer = transfers_[id];
    int crowd = 1;
    if (transfer.on_wire) crowd = crowd_of(transfer);
    transfer.activity.settle(now_);
    transfer.activity.rate =
        core_rate(instruction_of(transfer.parties.front()), threads_of(transfer)) / crowd;
    schedule(static_cast<int>(id) + num_classes());
  }

  // Transfers that share its busiest link.
  [[nodiscard]] int crowd_of(const Transfer& transfer) const {
    int crowd = 1;
    for (const Party& party : transfer.parties) {
      const auto& load = classes_[index(party.of_class)].load[index(transfer.level)];
      for (const Direction direction : {kOut, kIn}) {
        if (uses(party, direction)) crowd = std::max(crowd, load[direction]);
      }
    }
    return crowd;
  }

  void finish() {
    for (int c = 0; c < num_classes(); ++c) {
      for (int stream = 0; stream < kNumStreams; ++stream) {
        const Stream& state = classes_[index(c)].streams[index(stream)];
        if (state.next == state.instructions.size()) continue;
        TESSERA_CHECK(
            options_.lost.has_value(), "rank {} never gets past '{}'", representative(c),
            classes_[index(c)].program->instructions[state.instructions[state.next]].name);
        add_stuck(c, state);
      }
    }
    std::stable_sort(timeline_.stuck.begin(), timeline_.stuck.end(),
                     [](const StuckRank& a, const StuckRank& b) {
                       return std::tie(a.since, a.rank) < std::tie(b.since, b.rank);
                     });
  }

  // A stream that waits for another of its own rank is no news: that one is named.
  void add_stuck(int of_class, const Stream& stream) {
    const ClassState& state = classes_[index(of_class)];
    if (state.lost || !stream.busy) return;
    const size_t at = stream.instructions[stream.next];
    const Instruction& instruction = state.program->instructions[at];
    if (instruction.stream == StreamKind::kCompute) return;
    StuckRank stuck{.rank = representative(of_class),
                    .since = timeline_.ranks[index(of_class)].times[at].begin,
                    .instruction = at,
                    .waits_for = "",
                    .absent = absent_in({of_class, at})};
    stuck.waits_for = fmt::format("{} in {} over {} ('{}')", ranks_text(stuck.absent),
                                  communication_name(instruction), name_of(group_of(instruction)),
                                  instruction.name);
    timeline_.stuck.push_back(std::move(stuck));
  }

  // Members that have not come, or that were lost on the way.
  [[nodiscard]] std::vector<int> absent_in(const Party& party) const {
    const Meeting& meeting = meeting_of(party);
    const std::vector<Party>& arrived = channels_[index(meeting.channel)].arrived;
    std::vector<int> absent;
    for (const int rank : meeting.ranks) {
      const int of_class = timeline_.classes.of_rank[index(rank)];
      const bool here = std::any_of(arrived.begin(), arrived.end(),
                                    [&](const Party& other) { return other.of_class == of_class; });
      const bool lost = classes_[index(of_class)].lost;
      const bool begun = arrived.empty();  // all were there, and one was lost on the way
      if (lost || (!here && !begun)) absent.push_back(rank);
    }
    return absent;
  }

  const RankPrograms& programs_;
  const Times& times_;
  const ReplayOptions& options_;
  StepTimeline timeline_;
  std::vector<ClassState> classes_;
  std::map<std::tuple<StreamKind, GroupId, std::vector<int>>, int> channel_ids_;
  std::vector<Channel> channels_;
  std::vector<Transfer> transfers_;
  std::vector<size_t> free_transfers_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> queue_;
  double now_ = 0;
  int threads_at_work_ = 0;  // of all ranks
};

// Ranks that differ from others by what happens to them.
std::vector<double> marks_of(const ReplayOptions& options, int world) {
  std::vector<double> marks(index(world), 1);
  for (const SlowRank& slow : options.slow) marks[index(slow.rank)] *= slow.factor;
  if (options.lost.has_value()) marks[index(options.lost->rank)] *= -1;
  return marks;
}

void check_rank(int rank, int world) {
  require_config(rank >= 0 && rank < world, "there is no rank {}: use 0 to {}", rank, world - 1);
}

}  // namespace

StepTimeline replay_step(const RankPrograms& programs, const Times& times,
                         const ReplayOptions& options) {
  const int world = programs.world();
  for (const SlowRank& slow : options.slow) {
    check_rank(slow.rank, world);
    require_config(slow.factor > 0, "rank {} is slow by a factor of {}: use more than 0", slow.rank,
                   slow.factor);
  }
  if (options.lost.has_value()) check_rank(options.lost->rank, world);
  // On shared cores every rank counts, not every class.
  const bool fold = options.fold && !times.shares_cores();
  RankClasses classes =
      fold ? classify(programs, times, marks_of(options, world)) : one_class_each(world);
  require_bounded(replay_size(programs, times, classes), classes, fold);
  return Replay(programs, times, options, std::move(classes)).run();
}

}  // namespace tessera

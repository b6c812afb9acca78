// What lies in the memory that ranks share, be they threads or processes. Zeroed memory is a valid
// beginning, so nobody has to initialise it. Every line is written by one rank alone (counts of
// sleepers excepted), and a line and what it announces travel together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "collective/algorithm.h"
#include "collective/op.h"
#include "comm/work_note.h"
#include "tensor/wait.h"

namespace tessera::shared {

constexpr uint64_t kMagic = 0x7465737365726131;
constexpr uint32_t kVersion = 3;
constexpr int kMaxRanks = 64;
constexpr int kMaxGroups = 128;
constexpr int kOutsideGroups = 32;  // of a rank, that have names and no memory here
constexpr int kCallSlots = 32;      // collectives of one group that may be in flight
constexpr int kMailSlots = 8;
constexpr int64_t kMailBytes = 16384;
constexpr int kPartSlots = 4;  // parts of messages from one rank to another that may be in flight
constexpr int64_t kPartBytes = 16384;
constexpr int64_t kStageBytes = 256 << 10;  // for inputs, and as much for outputs
constexpr int kRecords = 256;               // last calls of a rank that are remembered
constexpr uint32_t kStackThreads = 16;      // of a rank, that say where they are
constexpr int kStackFrames = 32;
constexpr size_t kNameBytes = 64;
constexpr size_t kAbortBytes = 2048;
constexpr size_t kDeathBytes = 128;

// A word that others wait for.
struct alignas(64) Counter {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};
};

enum CallFlags : uint8_t {
  kMailed = 1,      // the contribution is in the mailbox, not in `in`
  kForeignIn = 2,   // peers need `in` or `out`, which is not in shared memory: it is staged
  kForeignOut = 4,  //
  kInPlace = 8,     // in == out
  kHelped = 16,     // peers may move this rank's part, where all members say so
  kOnDevice = 32,   // where a world has a device: the buffers are its memory, or the host's;
  kOnHost = 64,     // neither where there is no data
};

// One call of one member.
struct alignas(64) CallLine {
  std::atomic<uint32_t> arrived{0};  // the sequence number, published last
  std::atomic<uint32_t> sleepers{0};
  CollectiveOp op;
  ReduceOp reduce;
  DType dtype;
  Algorithm algorithm;
  int32_t root;
  uint32_t tag;
  uint8_t flags;
  uint8_t mail_slot;
  int64_t count;
  uint64_t in;
  uint64_t out;
  uint64_t arrival_ticks;
  uint64_t history;  // a hash of what must agree in this call and in all before it
};
static_assert(sizeof(CallLine) == 64);

// Which parts of a call somebody moves or has moved, where any member may move any part. Each call
// line has one for all members.
struct alignas(64) PartClaims {
  std::atomic<uint64_t> claimed{0};  // the sequence number, then a bit for each part
};
constexpr int kMaxHelpedRanks = 32;

struct Member {
  Counter moved;  // calls whose data this rank has moved
  Counter stage_filled;
  Counter stage_moved;
  alignas(64) std::atomic<uint32_t> joined{0};
  std::atomic<uint32_t> moving{0};  // the call whose data this rank may be touching
  std::atomic<uint64_t> issued{0};
  uint64_t stage = 0;  // where its stage lies, once a call has a foreign buffer
};

// Who decides about the buffer of a part: the receiver that reads it, or the sender that takes it
// back after an abort.
enum PartClaim : uint32_t { kUnclaimed, kRead, kTakenBack };

// A part of a message from one rank to another; the text of a small one lies beside it.
struct alignas(64) PartLine {
  std::atomic<uint32_t> sent{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> claim{0};  // a PartClaim; of parts that are read from the sender's buffer
  DType dtype;
  bool mailed;
  bool on_device;
  uint32_t tag;
  int64_t count;  // of the whole message, in elements
  int64_t part_bytes;
  uint64_t data;
};

struct Pair {
  PartLine parts[kPartSlots];
  Counter taken;  // written by the receiver
};

struct GroupHead {
  std::atomic<uint32_t> left{0};
  char name[kNameBytes];
};

// A call as it was issued. Two threads of a rank may write two of these at once and a dying rank
// may leave one half written, so words are atomic and readers make do with what they find.
struct CallRecord {
  std::atomic<uint64_t> sequence, count, ticks;
  std::atomic<uint64_t> kind;    // group, op, reduction, dtype: 16 bits each
  std::atomic<uint64_t> detail;  // root, tag
};

// The calls that a thread is in, innermost first, as it says itself (comm/shm/stack_answers.h).
struct ThreadStack {
  std::atomic<int32_t> tid{0};  // published last
  int32_t depth;
  uint64_t frames[kStackFrames];
};
struct StackBlock {
  std::atomic<uint32_t> used{0};  // more than kStackThreads: some threads had no place
  ThreadStack threads[kStackThreads];
};

enum class RankState : uint32_t { kAbsent, kAttached, kLeft };

struct alignas(64) RankBlock {
  std::atomic<uint32_t> state{0};
  std::atomic<int32_t> pid{0};
  uint64_t start_ticks;                  // of the process, as the system counts
  std::atomic<uint32_t> death_state{0};  // 1: being written, 2: there
  char death[kDeathBytes];
  std::atomic<uint32_t> section{0};  // a RunSection
  std::atomic<int64_t> step{0};
  std::atomic<uint32_t> left{0};      // a bit for every section that it has been in and left
  std::atomic<uint64_t> beats{0};     // how often it has said where it is
  std::atomic<int32_t> waits_for{0};  // the rank that one of its threads sleeps for, and 1
  std::atomic<uint64_t> num_records{0};
  CallRecord records[kRecords];
  // Names of groups whose data goes another way; their numbers begin behind kMaxGroups.
  char outside_groups[kOutsideGroups][kNameBytes];
  WorkNote work[WorkNote::kStreams];
  StackBlock stacks;
};

// A RunState that rank 0 writes and whoever started the ranks reads.
struct RunStateBlock {
  std::atomic<int64_t> steps_done{0};
  std::atomic<int64_t> longest_step_us{0};
  std::atomic<int64_t> weight_bytes{0};
  std::atomic<uint32_t> saving{0};
  std::atomic<int64_t> saving_us{0};
  std::atomic<int64_t> saved_step{0};
  std::atomic<int64_t> checkpoint_step{0};
  std::atomic<uint32_t> opened{0};
};

struct WorldBlock {
  uint64_t magic;
  uint32_t version;
  uint32_t ranks;
  uint32_t cores;  // of the host, for all ranks
  int64_t heap_begin;
  int64_t heap_bytes_per_rank;
  int64_t total_bytes;
  alignas(64) AbortFlag abort_flag;
  std::atomic<uint32_t> abort_claimed{0};
  std::atomic<uint32_t> stop{0};  // the signal because of which; 0: none
  RunStateBlock run;
  char abort_text[kAbortBytes];
  alignas(64) std::atomic<uint32_t> group_lock{0};  // the rank that holds it, and 1
  std::atomic<uint64_t> group_keys[kMaxGroups];
  RankBlock rank[kMaxRanks];
};

// One group of `size` ranks at `base`.
class GroupView {
 public:
  GroupView() = default;
  GroupView(std::byte* base, int size);
  static int64_t bytes(int size);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] GroupHead& head() const { return at<GroupHead>(0); }
  [[nodiscard]] Member& member(int rank) const;
  [[nodiscard]] CallLine& call(int rank, uint64_t sequence) const;
  [[nodiscard]] PartClaims& claims(uint64_t sequence) const;
  [[nodiscard]] std::byte* mail(int rank, int slot) const;
  // What `rank` sends to each, then what it receives from each, in a call of all_to_all_v.
  [[nodiscard]] int64_t* counts(int rank, uint64_t sequence) const;
  // Bytes that `reader` has read from `from`, by op; bytes that a rank stored into others are in
  // its own row.
  [[nodiscard]] int64_t traffic(int reader, int from, CollectiveOp op) const;
  void count_traffic(int reader, int from, CollectiveOp op, int64_t bytes) const;
  // Messages of the caller and those of schedules do not meet.
  static constexpr int kChannels = 2;
  [[nodiscard]] Pair& pair(int channel, int from, int to) const;
  [[nodiscard]] std::byte* part(int channel, int from, int to, int slot) const;

 private:
  [[nodiscard]] std::atomic<int64_t>& traffic_word(int reader, int from, CollectiveOp op) const;
  template <typename T>
  [[nodiscard]] T& at(int64_t offset) const {
    return *reinterpret_cast<T*>(base_ + offset);
  }

  struct Offsets {
    int64_t members = 0, calls = 0, claims = 0, counts = 0, traffic = 0, pairs = 0, mail = 0,
            parts = 0;
    int64_t end = 0;
  };
  static Offsets offsets_of(int64_t size);

  std::byte* base_ = nullptr;
  int size_ = 0;
  Offsets offsets_;
};

// The world block, then the groups. What follows (the heap) starts on a huge page.
int64_t control_bytes(int ranks);
std::byte* group_at(WorldBlock& world, int index);

}  // namespace tessera::shared

// What one rank does in one optimizer step: instructions in order, on four streams, over buffers
// at fixed places in a few arenas. Planner and runtime both read this and nothing else.
//
// Instructions of one stream run in order. An instruction starts when every event in `waits` has
// been signalled in this step. Kernels run on the compute stream, collectives on the comm stream,
// sends and receives between pipeline stages on the pipe stream. Where activations need collectives
// (tp, cp, ep), those of weights and gradients have the data stream: a sum over replicas takes long
// and hides behind kernels, and the next layer must not queue behind it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compile/model/parameters.h"
#include "graph/graph.h"

namespace tessera {

enum class ArenaKind : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kWorkspace,
  kCache  // serving: keys and values
};
constexpr int kNumArenas = 7;
constexpr std::array<ArenaKind, kNumArenas> kAllArenas = {
    ArenaKind::kParameters,  ArenaKind::kGradients,     ArenaKind::kOptimizer,
    ArenaKind::kActivations, ArenaKind::kCommunication, ArenaKind::kWorkspace,
    ArenaKind::kCache};
// Those of a step of training: a plan of one has no cache.
constexpr std::array<ArenaKind, 6> kTrainingArenas = {
    ArenaKind::kParameters,  ArenaKind::kGradients,     ArenaKind::kOptimizer,
    ArenaKind::kActivations, ArenaKind::kCommunication, ArenaKind::kWorkspace};
std::string_view name_of(ArenaKind arena);

// Kernels; collectives; sends and receives between stages; collectives of weights and gradients.
enum class StreamKind : uint8_t { kCompute, kComm, kPipe, kData };
constexpr int kNumStreams = 4;
// All but the compute stream.
constexpr std::array<StreamKind, 3> kCommunicationStreams = {StreamKind::kComm, StreamKind::kPipe,
                                                             StreamKind::kData};
constexpr std::array<StreamKind, 2> kCollectiveStreams = {StreamKind::kComm, StreamKind::kData};
constexpr bool has_collectives(StreamKind stream) {
  return stream == StreamKind::kComm || stream == StreamKind::kData;
}
std::string_view name_of(StreamKind stream);

struct Buffer {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  ArenaKind arena = ArenaKind::kActivations;
  int64_t offset = 0;  // bytes from the start of the arena
  [[nodiscard]] int64_t bytes() const { return numel(shape) * size_bytes(dtype); }
};

using BufferId = int;
constexpr BufferId kNoBuffer = -1;

// What the kernels of a mixture of experts need.
struct ExpertArgs {
  int64_t first_token = 0, tokens_per_sequence = 1;  // router statistics
  int64_t experts = 0, layers = 0, seq_len = 0, group = 1;
  int64_t first_sequence = 0, sequences = 0;
  double coef = 0;
};

// What the optimizer's kernels need for each of the buckets that they take.
struct BucketArgs {
  int64_t index = -1;
  bool decay = false;
};

// The numbers a kernel needs besides its tensors, for this rank.
struct KernelArgs {
  int64_t heads = 0, kv_heads = 0, head_dim = 0, seq_len = 0;
  int64_t heads_per_kv = 1, first_head = 0, first_kv_head = 0;
  int64_t first_row = 0, valid_rows = 0;  // of the vocabulary
  int64_t window = 0;                     // attention
  int64_t first_token = 0;  // positions, dropout: this rank's first token of the micro-batch
  double dropout = 0;       // which mask: of `unit` and `site`, from that sequence of the step on
  int64_t unit = 0, first_sample = 0;
  DropoutSite site{};
  double eps = 0;
  bool inverse = false;
  // sum_squares, adamw, sgd: buckets in the order of their tensors, at most kMostGroupedBuckets.
  std::vector<BucketArgs> buckets;
  bool owner = false;  // metrics: this rank's loss and tokens count
  ExpertArgs experts;
  // Attention: the rows of q and kv, as in base/sequence_rows.h.
  int64_t parts = 1, q_part = 0, kv_part = 0;
  bool documents = false;           // attention: the last input says where documents begin
  int64_t column_groups = 1;        // split_columns, join_columns
  int64_t update = 1, updates = 1;  // adamw, sgd: which update of the step; metrics: how many
  int64_t states = 2;               // adamw, sgd: numbers that they keep of a weight
  // sum_squares, metrics, join_lanes: of the run, where sums do not depend on who makes them.
  int64_t lanes = 0, first_lane = 0;
  int64_t page_size = 0;  // cache_write, paged_attention
  int64_t chunks = 1;     // serve_linear, serve_logits: of this rank's part of the inner dimension
  std::array<Scaling, 2> scaling;  // amax, quantise, fp8 products: as in Attrs
  DType dtype = DType::kF32;       // fp8 products: of the activations
};

// Inputs and outputs are as the kernel takes them. Of sum_squares: a gradient for each bucket;
// the metrics. Of adamw and sgd: a gradient for each bucket, then what is known of the step;
// weight, m and v as far as args.states goes and, where has_master, a master copy for each bucket.
struct Instruction {
  OpKind op = OpKind::kCopy;
  CastKind collective = CastKind::kNothing;  // of kCast and kTieSum
  AxisSet group;                             // of what communicates
  bool ends_only = false;                    // of that group only the two ends of the pipeline
  bool tree = false;                         // sums of lanes (spec/run_file/lanes.h),
  bool twins = false;                        // of two groups, which are compared
  bool maximum = false;                      // all_reduce: the largest instead of the sum
  int peer = -1;                             // of kSend and kReceive: place in the group
  StreamKind stream = StreamKind::kCompute;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  bool accumulate = false;
  KernelArgs args;
  std::vector<int> waits;
  int signal = -1;
  std::string name;
  Tag tag;
  int micro_batch = -1;  // -1: once per step
};

// Where the state of one bucket lives. `weights` is what a checkpoint or the optimizer sees: the
// whole bucket, or this rank's shard of it. `full` is the whole bucket, or kNoBuffer with ZeRO-3.
struct BucketBuffers {
  BufferId weights = kNoBuffer, full = kNoBuffer, gradient = kNoBuffer;
  BufferId m = kNoBuffer, v = kNoBuffer;  // that the optimizer keeps
  BufferId master = kNoBuffer;            // of 16-bit weights
};

// What a step of serving reads of its frame, all i32, and the pages that are kept. kNoBuffer, or
// nothing, where the rank does not need it.
struct ServeBuffers {
  BufferId positions = kNoBuffer;  // [T] of each token in its sequence
  BufferId slots = kNoBuffer;      // [T] page * page_size + offset; -1: the token is padding
  BufferId first_row =
      kNoBuffer;  // [N + 1] the tokens of sequence n: [first_row[n], first_row[n + 1])
  BufferId kv_len = kNoBuffer;   // [N] tokens of the sequence that the cache holds, these included
  BufferId pages = kNoBuffer;    // [N, P]
  BufferId rows = kNoBuffer;     // [R] tokens whose logits are wanted; -1: none
  std::vector<BufferId> caches;  // by layer: [pages, 2 * kv_heads * page_size * head_dim]
};

struct Program {
  int rank = 0;
  Mesh mesh;
  int threads = 1;
  int64_t micro_batches = 1;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  int num_events = 0;
  std::array<int64_t, kNumArenas> arena_bytes{};
  std::array<int, 2> pipeline_ends{};     // on axis pp: where the first and the last stage are
  std::map<int, int> live_micro_batches;  // by stage of this rank: in flight at one time
  int weight_versions = 1;                // copies of the weights

  BufferId tokens = kNoBuffer, labels = kNoBuffer;  // [micro_batches, tokens of this rank]
  // [micro_batches, queries of this rank's attention]: where in its sequence the document of each
  // begins. Attention has it as its last input.
  BufferId document_starts = kNoBuffer;
  BufferId metrics =
      kNoBuffer;  // f64: sum of squares of the gradient, loss, tokens, those of the last update
  BufferId loss = kNoBuffer;         // f64[1]; with lanes, one for each that the rank owns
  BufferId logits = kNoBuffer;       // inference
  BufferId router_load = kNoBuffer;  // f64 [layers, experts]: choices, added up by every step
  BufferId rope_cos = kNoBuffer, rope_sin = kNoBuffer, scratch = kNoBuffer;
  std::vector<BucketBuffers> buckets;
  ServeBuffers serve;

  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id)]; }
  [[nodiscard]] int64_t total_bytes() const;
};

// Whether the weights of an update have a master copy or the rest of one (base/master_weight.h);
// and whether it is a whole copy, from which they are written.
bool has_master(const Instruction& instruction);
bool has_whole_master(const Program& program, const Instruction& instruction);

// The ranks that an instruction communicates with, this one included, and what they are called.
struct GroupId {
  AxisSet axes;
  bool ends_only = false;
  friend auto operator<=>(const GroupId&, const GroupId&) = default;
};
GroupId group_of(const Instruction& instruction);
std::string name_of(const GroupId& group);
std::vector<int> members_of(const Program& program, const GroupId& group);
// "all_reduce", …, "send", "receive".
std::string_view communication_name(const Instruction& instruction);

// Payload that this rank sends in one call of the collective, with the algorithm that
// choose_algorithm gives.
int64_t bytes_sent(const Program& program, const Instruction& instruction);

struct Traffic {
  std::string group;
  std::string op;
  int64_t calls = 0;
  int64_t bytes_sent = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};
// Per optimizer step, sorted by group and op; groups of one rank do not appear.
std::vector<Traffic> traffic_of(const Program& program);

std::string_view collective_name(CastKind kind);  // "all_reduce", …

// Identity of an instruction: everything that decides what it does.
uint64_t hash_of(const Program& program, const Instruction& instruction);
// Identity of a list of instructions, from their hashes in order.
std::string digest_of(const std::vector<uint64_t>& hashes);
std::string digest_of(const Program& program);

// For people and golden files.
std::string to_text(const Program& program);

}  // namespace tessera

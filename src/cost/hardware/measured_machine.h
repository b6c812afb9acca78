// What `tessera calibrate` found out about one machine: how long the kernels and collectives of our
// own Programs take there, and how ranks that share its cores slow each other down. Part of a
// cluster file (docs/calibrate.md); src/sim/replay/measured_times.h prices Programs with it. Pure.
//
// A time is a sum of terms, each a number of units (arithmetic, bytes …) times the seconds of one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile/program/instruction_cost.h"
#include "compile/program/program.h"

namespace tessera {

enum class TimeTerm : uint8_t {
  kCall,      // once
  kFlop,      // products and attention
  kLeft,      // products: elements of the first operand,
  kRight,     // of the second,
  kOut,       // and of the result
  kScore,     // attention: pairs of a query and a key that it sees, of all heads
  kByte,      // read or written; of a collective: of the longer of its buffers
  kByte256K,  // the bytes beyond 256 KiB, which cost so much more,
  kByte2M,    // beyond 2 MiB,
  kByte16M,   // beyond 16 MiB: caches end somewhere
  kMid,       // serving: bytes read that lie beyond the nearest caches,
  kFar,       // and in memory (ReadingShares)
};
inline constexpr int kNumTimeTerms = 12;
std::string_view name_of(TimeTerm term);  // "call", "flop", …

using TimeTerms = std::array<double, kNumTimeTerms>;
double seconds_of(const TimeTerms& units, const TimeTerms& seconds);

// Units of a kernel; which terms it has depends on its class alone.
TimeTerms kernel_terms(const Program& program, const Instruction& instruction);
// Units of a collective or a message.
TimeTerms transfer_terms(const Program& program, const Instruction& instruction);
TimeTerms byte_terms(double bytes);

// The type that a kernel is told apart by: the narrowest that its operands are stored in.
DType kernel_type(const Program& program, const Instruction& instruction);

struct TimeFit {
  TimeTerms seconds{};   // of one unit of each term
  int points = 0;        // measured
  double error_pct = 0;  // mean, of the fit on its own points
};

struct TimeSample {
  TimeTerms units{};
  double seconds = 0;
};
// Takes at least one sample.
TimeFit fit_times(const std::vector<TimeSample>& samples);

struct MeasuredKernel {
  std::string op;  // its name, or kClassMark and the name of a class: what was not measured itself
  DType type = DType::kF32;
  int threads = 1;  // of the team that ran it
  TimeFit fit;
  int tokens = 0;  // of the frame of serving that it was measured in; 0: in training
};
inline constexpr std::string_view kClassMark = "any ";

struct MeasuredCollective {
  std::string op;         // "all_reduce", …, "send"
  std::string ranks_are;  // "threads" or "processes"
  int ranks = 2;
  TimeFit fit;
};

// All ranks of a host together have `threads` threads at work: how many times as long each takes as
// one alone, by the class of what it does.
struct CoreSharing {
  int threads = 1;
  std::array<double, kNumOpClasses> slowdown{};
};

// So many bytes are read again and again: the shares of them that the nearest caches have lost
// meanwhile, and all of them.
struct ReadingShare {
  double bytes = 0, mid = 0, far = 0;
};
struct ReadingShares {
  int threads = 1;                        // that read, each its part
  std::vector<ReadingShare> points = {};  // by bytes, ascending
};

struct MeasuredMachine {
  std::string source;  // when, where, by which command; empty: nothing was measured
  TrainDevice device = TrainDevice::kCpu;  // kCuda: one GPU, whose ranks share no cores
  int cores = 1;
  double dispatch_s = 0;             // between two instructions of a stream
  std::vector<CoreSharing> sharing;  // by threads, ascending
  std::vector<MeasuredKernel> kernels;
  std::vector<MeasuredCollective> collectives;
  std::vector<ReadingShares> reading = {};  // empty: frames of serving were not measured

  [[nodiscard]] bool empty() const { return kernels.empty(); }
};

// Alone on its host, dispatch included. Where the op was not measured its class stands in, where
// the number of threads was not the nearest one. Throws ConfigError where neither is there.
double kernel_s(const MeasuredMachine& machine, const Program& program,
                const Instruction& instruction);
// Whether the op itself was measured, in its type.
bool is_measured(const MeasuredMachine& machine, const Program& program,
                 const Instruction& instruction);

// Experts compute the rows that there are, not those there is room for. When tokens are spread
// evenly a rank has as many as its own tokens make choices: this part of the room; 1 of other ops.
double filled_part(const Program& program, const Instruction& instruction);

// A collective of so many ranks while nobody else is at work. Between measured numbers of ranks in
// proportion.
TimeTerms collective_seconds(const MeasuredMachine& machine, std::string_view op,
                             std::string_view ranks_are, int ranks);

// Between measured numbers of threads in proportion; beyond the last one each thread more costs
// its share.
double slowdown(const MeasuredMachine& machine, int threads, OpClass op_class);

// Throws ConfigError with what is wrong.
void check(const MeasuredMachine& machine);

}  // namespace tessera

#include "train/machine/probe_programs.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <numeric>

#include "base/cuda_workspace.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/rounding.h"
#include "base/workspace.h"
#include "runtime/world.h"
#include "tensor/element.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmups = 2;
constexpr int64_t kWorkSide = 256;  // of the product that is work between calls

int64_t work_scratch() {
  return workspace::linear(DType::kF32, kWorkSide, kWorkSide, kWorkSide, 1);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t aligned(int64_t bytes) {
  return (bytes + workspace::kAlignBytes - 1) / workspace::kAlignBytes * workspace::kAlignBytes;
}

// Numbers like those of training: zeros can be multiplied faster.
class RandomNumbers {
 public:
  RandomNumbers() {
    for (int64_t i = 0; i < kPeriod; ++i) {
      values_.push_back(normal_at(1, 1, static_cast<uint64_t>(i)));
    }
  }

  void fill(const Tensor& tensor) const {
    for (int64_t i = 0; i < std::min(kPeriod, tensor.numel()); ++i) {
      write_element(tensor, i, values_[static_cast<size_t>(i)]);
    }
    const int64_t element = size_bytes(tensor.dtype);
    auto* bytes = static_cast<std::byte*>(tensor.data);
    for (int64_t i = kPeriod; i < tensor.numel(); i += kPeriod) {
      const int64_t count = std::min(kPeriod, tensor.numel() - i);
      std::copy_n(bytes, count * element, bytes + i * element);
    }
  }

 private:
  static constexpr int64_t kPeriod = 65521;
  std::vector<double> values_;
};

void fill_inputs_of(Executor& executor) {
  // By place: of the buffers that begin there the largest, which covers the others.
  std::map<int64_t, BufferId> inputs;
  const Program& program = executor.program();
  for (const Instruction& instruction : program.instructions) {
    for (const BufferId id : instruction.inputs) {
      const Buffer& buffer = program.buffer(id);
      const auto [at, is_new] = inputs.try_emplace(buffer.offset, id);
      if (!is_new && program.buffer(at->second).bytes() < buffer.bytes()) at->second = id;
    }
  }
  const RandomNumbers numbers;
  for (const auto& [offset, id] : inputs) {
    executor.edit(id, [&](const Tensor& tensor) { numbers.fill(tensor); });
  }
}

Instruction copy_of(Program& program, int64_t bytes) {
  Instruction copy;
  copy.op = OpKind::kCopy;
  copy.name = "copy";
  copy.inputs = {add_buffer(program, "from", DType::kF32, {bytes / 4})};
  copy.outputs = {add_buffer(program, "to", DType::kF32, {bytes / 4})};
  return copy;
}

void repeat(Program& program, const Instruction& instruction, int times) {
  program.instructions.assign(static_cast<size_t>(times), instruction);
}

// A product of T tokens with a weight of F rows and H columns.
struct ProductShape {
  int64_t tokens, out, in;
};

struct ProductSizes {
  std::vector<int64_t> tokens, sides;
};
ProductSizes product_sizes(DType type, bool quick, bool gpu) {
  // Who trains on a GPU in 32 bits does so to compare: fewer sizes are enough.
  if (gpu && (quick || type == DType::kF32)) return {{512, 4096}, {512, 1536, 4096}};
  if (gpu) return {{512, 2048, 8192}, {512, 1536, 4096, 10240}};
  if (quick) return {{48, 256}, {64, 320}};
  return {{16, 48, 128, 448}, {40, 128, 352, 1024}};
}

std::vector<ProductShape> product_shapes(DType type, bool quick, bool gpu) {
  const auto [tokens, sides] = product_sizes(type, quick, gpu);
  std::vector<ProductShape> shapes;
  for (const int64_t t : tokens) {
    for (const int64_t out : sides) {
      for (const int64_t in : sides) shapes.push_back({t, out, in});
    }
  }
  return shapes;
}

// The three products of a linear layer: forward, input gradient, weight gradient. Results go to a
// place that no product reads, so that numbers stay as they are.
void add_products(Program& program, DType type, const ProductShape& shape, int64_t place) {
  const auto buffer = [&](const char* name, DType dtype, const Shape& dims, int64_t slot) {
    program.buffers.push_back({name, dtype, dims, ArenaKind::kActivations, place * slot});
    return static_cast<BufferId>(program.buffers.size()) - 1;
  };
  const Shape x_dims = {shape.tokens, shape.in};
  const Shape y_dims = {shape.tokens, shape.out};
  const BufferId x = buffer("x", type, x_dims, 1);
  const BufferId w = buffer("w", type, {shape.out, shape.in}, 2);
  const BufferId dy = buffer("dy", type, y_dims, 3);
  const auto add = [&](OpKind op, std::vector<BufferId> inputs, DType dtype, const Shape& dims) {
    Instruction product;
    product.op = op;
    product.name = "product";
    product.inputs = std::move(inputs);
    product.outputs = {buffer("result", dtype, dims, 4)};
    program.instructions.push_back(std::move(product));
  };
  add(OpKind::kLinear, {x, w}, type, y_dims);
  add(OpKind::kLinearDx, {dy, w}, type, x_dims);
  add(OpKind::kLinearDw, {dy, x}, accumulate_type(type), {shape.out, shape.in});
}

struct EventCount {
  int next = 0;
  int take() { return next++; }
};

// A product that takes some hundred microseconds on one thread.
Instruction add_product(Program& program) {
  Instruction product;
  product.op = OpKind::kLinear;
  product.name = "product";
  const Shape shape = {kWorkSide, kWorkSide};
  product.inputs = {add_buffer(program, "x", DType::kF32, shape),
                    add_buffer(program, "w", DType::kF32, shape)};
  product.outputs = {add_buffer(program, "y", DType::kF32, shape)};
  return product;
}

// One rank's calls: work, collective, work, … each waiting for the one before. The work is long
// enough for threads that wait to fall asleep, as in training: waking them is part of a call.
class CollectiveChain {
 public:
  CollectiveChain(CastKind kind, int ranks, int rank, int64_t bytes)
      : kind_(kind), rank_(rank), program_(empty_program(mesh_of(kind, ranks), 1, work_scratch())) {
    program_.rank = rank;
    const int64_t elements = std::max<int64_t>(bytes / 4 / ranks, 1) * ranks;
    const bool shrinks = kind == CastKind::kReduceScatter;
    const bool grows = kind == CastKind::kAllGather;
    in_ = add_buffer(program_, "in", DType::kF32, {grows ? elements / ranks : elements});
    out_ = add_buffer(program_, "out", DType::kF32, {shrinks ? elements / ranks : elements});
    work_ = add_product(program_);
  }

  Program make(int calls) {
    for (int i = 0; i < calls; ++i) {
      if (kind_ == CastKind::kNothing) {
        add_turn(i % 2);
      } else {
        add_work();
        add_collective();
      }
    }
    add_work();
    program_.num_events = events_.next;
    return std::move(program_);
  }

 private:
  static Mesh mesh_of(CastKind kind, int ranks) {
    const int64_t n = ranks;
    return kind == CastKind::kNothing ? Mesh({n, 1, 1, 1, 1}) : Mesh({1, n, 1, 1, 1});
  }

  void push(Instruction instruction) {
    if (last_ >= 0) instruction.waits = {last_};
    last_ = instruction.signal = events_.take();
    program_.instructions.push_back(std::move(instruction));
  }
  void add_work() { push(work_); }

  // One rank works and sends, the other waits for it.
  void add_turn(int sender) {
    if (rank_ == sender) add_work();
    add_message(rank_ == sender);
  }

  void add_collective() {
    Instruction call;
    call.op = OpKind::kCast;
    call.collective = kind_;
    call.group = Axis::kDp;
    call.stream = StreamKind::kComm;
    call.inputs = {kind_ == CastKind::kAllReduce ? out_ : in_};
    call.outputs = {out_};
    call.name = "call";
    push(call);
  }

  void add_message(bool sends) {
    Instruction call;
    call.op = sends ? OpKind::kSend : OpKind::kReceive;
    call.group = Axis::kPp;
    call.stream = StreamKind::kPipe;
    call.peer = 1 - rank_;
    (sends ? call.inputs : call.outputs) = {sends ? in_ : out_};
    call.name = "message";
    push(call);
  }

  CastKind kind_;
  int rank_;
  Program program_;
  BufferId in_ = kNoBuffer, out_ = kNoBuffer;
  Instruction work_;
  EventCount events_;
  int last_ = -1;
};

// Launches are timed as they are.
StepGraph without_cuda_graph(StepGraph step) {
  step.spec.train.cuda_graph = CudaGraph::kOff;
  return step;
}

// Seconds of a step, of every rank and timed step.
std::vector<double> time_ranks(const StepGraph& step, std::vector<Program> programs,
                               int64_t repeats) {
  World world(without_cuda_graph(step), std::move(programs));
  std::mutex mutex;
  std::vector<double> seconds;
  world.run([&](int, Executor& executor) {
    fill_inputs_of(executor);
    for (int i = 0; i < kWarmups; ++i) executor.run({});
    for (int64_t i = 0; i < repeats; ++i) {
      const Clock::time_point start = Clock::now();
      executor.run({});
      const double taken = seconds_since(start);
      const std::lock_guard lock(mutex);
      seconds.push_back(taken);
    }
  });
  return seconds;
}

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Program empty_program(const Mesh& mesh, int threads, int64_t scratch_bytes) {
  Program program;
  program.mesh = mesh;
  program.threads = threads;
  program.scratch = add_buffer(program, "scratch", DType::kF64, {ceil_div(scratch_bytes, 8)});
  return program;
}

BufferId add_buffer(Program& program, const std::string& name, DType dtype, const Shape& shape) {
  int64_t& end = program.arena_bytes[static_cast<size_t>(ArenaKind::kActivations)];
  program.buffers.push_back({name, dtype, shape, ArenaKind::kActivations, end});
  end += aligned(program.buffers.back().bytes());
  return static_cast<BufferId>(program.buffers.size()) - 1;
}

StepGraph probe_step(TrainDevice device, const Mesh& mesh) {
  StepGraph step;
  step.spec.train.device = device;
  step.mesh = mesh;
  return step;
}

Program product_sweep(DType type, int threads, bool quick, bool gpu) {
  int64_t scratch = gpu ? workspace::cuda::kMatmulBytes : 8;
  int64_t largest = 0;
  const std::vector<ProductShape> shapes = product_shapes(type, quick, gpu);
  for (const auto& [tokens, out, in] : shapes) {
    if (!gpu) {
      scratch = std::max(scratch, workspace::linear(type, tokens, out, in, threads));
    }
    largest = std::max({largest, tokens * out, tokens * in, out * in});
  }
  Program program = empty_program(Mesh(), threads, scratch);
  int64_t& end = program.arena_bytes[static_cast<size_t>(ArenaKind::kActivations)];
  // Slot 0 has the scratch, the others one operand each.
  const int64_t place = aligned(std::max(end, largest * size_bytes(accumulate_type(type))));
  end = 5 * place;
  for (const ProductShape& shape : shapes) add_products(program, type, shape, place);
  return program;
}

Program movement_sweep(DType type, int threads, bool gpu) {
  const int64_t largest = int64_t{1} << (gpu ? 26 : 22);  // elements
  Program program = empty_program(Mesh(), threads, 8);
  for (int64_t elements = 64; elements <= largest; elements *= 4) {
    for (const OpKind op : {OpKind::kCopy, OpKind::kAccumulate, OpKind::kZero}) {
      Instruction move;
      move.op = op;
      move.name = "move";
      if (op != OpKind::kZero) move.inputs = {add_buffer(program, "from", type, {elements})};
      move.outputs = {add_buffer(program, "to", type, {elements})};
      program.instructions.push_back(std::move(move));
    }
  }
  return program;
}

std::vector<double> time_instructions(TrainDevice device, const Program& program, int64_t repeats) {
  const StepGraph step = probe_step(device, program.mesh);
  World world(without_cuda_graph(step), {program});
  std::vector<std::vector<double>> seconds(program.instructions.size());
  world.run([&](int, Executor& executor) {
    fill_inputs_of(executor);
    executor.tune();
    for (int i = 0; i < kWarmups; ++i) executor.run({});
    for (int64_t i = 0; i < repeats; ++i) {
      executor.time_instructions(true);
      executor.run({});
      for (size_t k = 0; k < seconds.size(); ++k) {
        seconds[k].push_back(executor.instruction_times()->seconds(k));
      }
    }
  });
  std::vector<double> medians;
  for (std::vector<double>& values : seconds) medians.push_back(median_of(std::move(values)));
  return medians;
}

double time_step(const StepGraph& step, const Program& program, int64_t repeats) {
  return median_of(time_ranks(step, {program}, repeats));
}

double gap_between_kernels(TrainDevice device) {
  constexpr int kKernels = 500;
  constexpr int kTries = 7;
  Program program = empty_program(Mesh(), 1, 8);
  repeat(program, copy_of(program, 64), kKernels);
  for (int i = 0; i < kKernels; i += 2) {  // about as many events as in training
    program.instructions[static_cast<size_t>(i)].signal = program.num_events++;
  }
  const std::vector<double> seconds = time_instructions(device, program, kTries);
  double inside = 0;
  for (const double value : seconds) inside += value;
  const StepGraph step = probe_step(device, Mesh());
  const std::vector<double> whole = time_ranks(step, {program}, kTries);
  return (*std::min_element(whole.begin(), whole.end()) - inside) / kKernels;
}

double copy_rate(TrainDevice device) {
  const bool gpu = device == TrainDevice::kCuda;
  const int64_t bytes = gpu ? int64_t{1} << 30 : int64_t{1} << 26;
  Program program = empty_program(Mesh(), 1, 8);
  repeat(program, copy_of(program, bytes), gpu ? 16 : 2);
  constexpr int64_t kRuns = 5;
  return 2 * static_cast<double>(bytes) * static_cast<double>(program.instructions.size()) /
         time_step(probe_step(device, Mesh()), program, kRuns);
}

// Copies as large as a rank's activations: in its own cache at times, in the shared one mostly.
Program memory_work() {
  constexpr int64_t kBytes = int64_t{1} << 20;
  constexpr int kTimes = 8;
  Program program = empty_program(Mesh(), 1, 8);
  for (int i = 0; i < kTimes; ++i) program.instructions.push_back(copy_of(program, kBytes));
  return program;
}

namespace {

// The same Program on every rank of a world.
std::vector<double> time_copies(const Program& work, int ranks, int64_t repeats) {
  const Mesh mesh({1, ranks, 1, 1, 1});
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(work);
    programs.back().mesh = mesh;
    programs.back().rank = rank;
  }
  return time_ranks(probe_step(TrainDevice::kCpu, mesh), std::move(programs), repeats);
}

}  // namespace

double time_together(const Program& work, int ranks, int64_t repeats) {
  // The mean: where ranks outnumber cores some steps are interrupted for long.
  const std::vector<double> seconds = time_copies(work, ranks, repeats);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

double time_work(int ranks, int64_t repeats) {
  constexpr int kTimes = 16;
  Program program = empty_program(Mesh(), 1, work_scratch());
  repeat(program, add_product(program), kTimes);
  // What it is taken from is a median too.
  return median_of(time_copies(program, ranks, repeats)) / kTimes;
}

double time_collective(CastKind kind, int ranks, int64_t bytes, int64_t repeats, double work_s) {
  const int calls = bytes >= 1 << 20 ? 4 : 16;
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    programs.push_back(CollectiveChain(kind, ranks, rank, bytes).make(calls));
  }
  const Mesh mesh = programs.front().mesh;
  const double whole =
      median_of(time_ranks(probe_step(TrainDevice::kCpu, mesh), std::move(programs), repeats));
  return std::max(0.0, whole - (calls + 1) * work_s) / calls;
}

}  // namespace tessera

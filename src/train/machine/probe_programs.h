// Programs that exist to be timed: one kernel, many products, or one collective over and over, with
// operands of random numbers. What device_rates.h and calibrate.h measure with.
#pragma once

#include <string>
#include <vector>

#include "compile/step.h"

namespace tessera {

// Without instructions; a buffer for scratch.
Program empty_program(const Mesh& mesh, int threads, int64_t scratch_bytes);
BufferId add_buffer(Program& program, const std::string& name, DType dtype, const Shape& shape);

// Where such a Program runs: a run of which nothing else is known.
StepGraph probe_step(TrainDevice device, const Mesh& mesh);

// Products forward and backward at many shapes. They share their operands' memory, so that a
// product finds it in the outer caches at best, as in training.
Program product_sweep(DType type, int threads, bool quick, bool gpu);

// Copies, additions and zeros of many sizes: what ranks do to values before and behind collectives.
Program movement_sweep(DType type, int threads, bool gpu);

// Seconds of every instruction, the median of `repeats` steps.
std::vector<double> time_instructions(TrainDevice device, const Program& program, int64_t repeats);
// Seconds of a step of one rank, the median of `repeats`; its instructions are not timed.
double time_step(const StepGraph& step, const Program& program, int64_t repeats);

// Seconds from the end of an instruction to the start of the next one: a step of tiny kernels less
// what they take themselves. The least of several tries: nothing makes it shorter by mistake. Less
// than nothing where timing a kernel takes longer than starting the next one, as on a GPU.
double gap_between_kernels(TrainDevice device);

// Bytes per second of a large copy on one thread, read plus written.
double copy_rate(TrainDevice device);

// Copies on one thread.
Program memory_work();
// Seconds of a step when `ranks` ranks do the same at once: mean over steps and ranks.
double time_together(const Program& work, int ranks, int64_t repeats);

// Seconds of the work that time_collective() puts between calls, when so many ranks do it at once.
double time_work(int ranks, int64_t repeats);
// Seconds of one collective between ranks as threads, from when a kernel has signalled its input
// to when the next kernel goes on; kNothing: a message from one rank to the next. `bytes`: of the
// longer of its buffers; `work_s`: what time_work() says for as many ranks as work at once.
double time_collective(CastKind kind, int ranks, int64_t bytes, int64_t repeats, double work_s);

double median_of(std::vector<double> values);  // 0 of none

}  // namespace tessera

#include "train/session/rank_session.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/text_doubt.h"
#include "tensor/gpu_memory.h"
#include "train/control.h"
#include "train/machine_defaults.h"
#include "train/report/comm_report.h"
#include "train/samples/batch.h"
#include "train/samples/step_samples.h"
#include "train/session/run_summary.h"
#include "train/session/session_of_rank.h"
#include "train/state/replicas.h"

namespace tessera {
namespace {

// 0: the run needs no GPU.
int64_t free_gpu_bytes(const RunSpec& spec, const TrainOptions& options) {
  return spec.train.device == TrainDevice::kCuda ? cuda::gpu_info(options.gpu).free_bytes : 0;
}

// A kernel or a collective of the other stream may take as long as a peer may be late.
ExecutorOptions execution(const RunSpec& spec, const TrainOptions& train, int rank) {
  ExecutorOptions options = executor_options(spec);
  options.timeout = std::max(options.timeout, 2 * comm_timeout(spec));
  options.fault = fault_of(train.inject, rank);
  return options;
}

}  // namespace

RankSession::RankSession(const TrainOptions& options, const TrainJob& job, CommWorld& world,
                         Communicator& control)
    : options_(options),
      job_(job),
      spec_(job.step.spec),
      failpoints_(options.faults, world.rank(), options.generation),
      world_(world),
      control_(control),
      gpu_free_before_(free_gpu_bytes(spec_, options)),
      rank_(world, rank_options(spec_, options.gpu)),
      executor_(rank_, job.step, job.programs.at(world.rank()),
                execution(spec_, options, world.rank())),
      scaler_(spec_.train),
      guard_(spec_.train),
      evaluation_(spec_, job.held_out),
      samples_(spec_, executor_.program()),
      report_(options, spec_, world, executor_),
      trace_(spec_, options.trace, executor_.program().instructions.size()) {}

// Where the run's files go; ranks other than 0 have none.
const std::string& RankSession::folder() const {
  return output_.has_value() ? output_->directory().path() : spec_.logging.run_dir;
}

void RankSession::tell_state() const {
  if (options_.on_state) options_.on_state(state_);
}

void RankSession::enter(RunSection section, int64_t step) {
  state_.section = section;
  state_.step = step;
  tell_state();
}

// What the arenas were given, which stays so for the whole run. All ranks call it.
void RankSession::gather_memory() {
  int64_t mine = 0;
  for (const ArenaKind arena : kAllArenas) mine += executor_.arena_bytes(arena);
  std::vector<int64_t> rank_bytes;
  for (const std::string& bytes : exchange_texts(control_, std::to_string(mine))) {
    rank_bytes.push_back(std::stoll(bytes));
  }
  report_.set_memory(std::move(rank_bytes));
}

void RankSession::fill_next(int64_t step) {
  const HostTimer timer;
  fill_inputs(executor_, spec_, step, samples_.watch(job_.samples.fill, step), job_.samples.starts);
  data_seconds_ += timer.seconds();
}

// Instructions are timed from the first step of the trace to its last.
void RankSession::keep_trace(int64_t step) {
  if (trace_.wants(step)) trace_.keep(step, executor_.instruction_times()->spans());
  if (trace_.wants(step + 1) != trace_.wants(step)) {
    executor_.time_instructions(trace_.wants(step + 1));
  }
}

void RankSession::count_step(int64_t step, double step_seconds) {
  steps_done_ = step;
  samples_.count(step);
  if (output_.has_value()) output_->count_step(step);
  state_.steps_done = step;
  state_.longest_step_us =
      std::max(state_.longest_step_us, static_cast<int64_t>(step_seconds * 1e6));
  tell_state();
}

void RankSession::report_step(const StepParams& params, const StepOutcome& outcome,
                              double step_seconds) {
  const bool evaluated = evaluation_.due_after(steps_done_);
  if (!report_.line_is_due(steps_done_, !skipped_.empty() || evaluated)) {
    samples_hash_.clear();
  } else {
    samples_hash_ = samples_.total(control_);
  }
  if (!output_.has_value()) return;
  ReportedStep step = {.step = steps_done_,
                       .outcome = outcome,
                       .params = params,
                       .seconds = step_seconds,
                       .elapsed = timer_.seconds() - evaluation_.seconds() -
                                  (checkpoints_.has_value() ? checkpoints_->seconds() : 0),
                       .data_seconds = data_seconds_,
                       .skipped = skipped_,
                       .evaluated = evaluated,
                       .evaluation = evaluation_.last(),
                       .load = load_,
                       .samples_hash = samples_hash_};
  if (spec_.train.dtype == DType::kF16 || guard_.on()) {
    step.skipped_steps = scaler_.skipped() + guard_.skipped();
  }
  report_.report(step, *output_);
}

// What is known after the first step.
void RankSession::tell_notes() const {
  if (!output_.has_value() || !options_.on_note) return;
  for (const std::string& note : executor_.notes()) output_->note(note);
  if (const std::string note = data_note(spec_.data.path); !note.empty()) output_->note(note);
}

// It pays for page faults.
void RankSession::forget_first_step() {
  executor_.reset_comm_times();
  report_.forget_first_step(data_seconds_);
  compute_.reset();
}

// Runs step `step`, whose inputs are there, and fills in those of the next, if the inputs are not
// wanted for an evaluation first.
StepOutcome RankSession::run_step(int64_t step, StepParams& params) {
  const bool last = step == spec_.train.steps;
  scaler_.apply_to(params);
  guard_.apply_to(params);
  executor_.set_probe(probe_of(step));
  const double waited = exposed_seconds(executor_.comm_times());
  const HostTimer launched;
  failpoints_.pass("step.begin", step);
  executor_.start(params);
  // A GPU is fed while it computes; on the CPU the inputs are in use until the step is over.
  const bool early = executor_.inputs_free();
  if (early && !last) fill_next(step + 1);
  const StepOutcome outcome = executor_.finish();
  const double taken = launched.seconds();
  compute_.add_step(taken);
  step_compute_ms_.push_back(1e3 * (taken - exposed_seconds(executor_.comm_times()) + waited));
  keep_trace(step);
  settle(params, outcome);
  load_ = take_router_load(executor_, control_);
  if (!early && !last && !evaluation_.due_after(step)) fill_next(step + 1);
  return outcome;
}

void RankSession::evaluate(int64_t step) {
  if (!evaluation_.due_after(step)) return;
  enter(RunSection::kEvaluation, step);
  failpoints_.pass("eval", step);
  evaluation_.run(executor_, control_);
  if (step < spec_.train.steps) fill_next(step + 1);
}

void RankSession::train() {
  require_config(options_.compare_every == 0 || has_replicas(job_.step),
                 "--compare-replicas {}: every rank of this mesh holds a part that no other has: "
                 "leave the flag out, or use data parallelism (dp)",
                 options_.compare_every);
  begin_weights();
  gather_memory();
  const int64_t first = before_ + 1;
  if (first <= spec_.train.steps) fill_next(first);
  if (executor_.tune()) {
    control_.barrier();  // as in run_summary()
    executor_.reset_traffic();
  }
  keep_trace(before_);
  timer_ = HostTimer();
  for (int64_t step = first; step <= spec_.train.steps; ++step) {
    const HostTimer timer;
    enter(RunSection::kStep, step);
    StepParams params = step_params(spec_, step);
    const StepOutcome outcome = run_step(step, params);
    const double step_seconds = timer.seconds();
    evaluate(step);
    if (failpoints_.pass("step.end", step)) flip_a_bit();
    count_step(step, timer.seconds());
    final_loss_ = outcome.loss;
    if (options_.compare_every > 0 && step % options_.compare_every == 0) compare_replicas(step);
    // Before the save: a run that goes on from it keeps the lines up to its step.
    report_step(params, outcome, step_seconds);
    save_if_due(step);
    look_for_slow_rank();
    const bool last = step == spec_.train.steps;
    if (step == first) tell_notes();
    if (step == first && !last) forget_first_step();
    if (!last && !ends_early()) continue;
    if (options_.compare_every > 0) compare_replicas(step);
    return end_checkpoints();
  }
}

bool RankSession::ends_early() {
  if (time_is_up()) return true;
  stop_signal_ = static_cast<int>(largest_of_ranks(control_, wants_to_stop()));
  return stop_signal_ != 0;
}

int RankSession::wants_to_stop() const {
  const int signal = options_.should_stop ? options_.should_stop() : 0;
  return signal == 0 && world_.stop_requested() ? SIGTERM : signal;
}

// Rank 0's clock decides for all.
bool RankSession::time_is_up() {
  if (options_.max_seconds <= 0) return false;
  const bool reached = world_.rank() == 0 && timer_.seconds() >= options_.max_seconds;
  out_of_time_ = largest_of_ranks(control_, reached ? 1 : 0) != 0;
  return out_of_time_;
}

nlohmann::ordered_json RankSession::measure() {
  return run_summary({.steps = steps_done_,
                      .before = before_,
                      .seconds = timer_.seconds(),
                      .eval_seconds = evaluation_.seconds(),
                      .warm_seconds = report_.warm_seconds(),
                      .final_loss = final_loss_,
                      .evaluation = evaluation_.last(),
                      .max_seconds = out_of_time_ ? options_.max_seconds : 0,
                      .eval_passes = evaluation_.passes(),
                      .gpu_free_before = gpu_free_before_,
                      .gpu_free_after = free_gpu_bytes(spec_, options_),
                      .saves = checkpoints_.has_value() ? checkpoints_->saves() : 0,
                      .snapshots = checkpoints_.has_value() ? checkpoints_->snapshots() : 0,
                      .staging_bytes = checkpoints_.has_value() ? checkpoints_->staging_bytes() : 0,
                      .save_seconds = checkpoints_.has_value() ? checkpoints_->seconds() : 0,
                      .compute = compute_},
                     job_, executor_, world_, control_);
}

// Rank 0 speaks for all where the files of the end cannot be written.
void RankSession::finish(const TrainSummary& summary) {
  const std::string failure = steps_done_ > 0 ? save() : "";
  if (!output_.has_value()) return;
  try {
    const RunDirectory& directory = output_->directory();
    if (directory.is_ours()) directory.write_json("summary.json", summary.measured);
  } catch (const Error& error) {
    require(!failure.empty(), "{}; the weights of step {} are in '{}'", error.what(), steps_done_,
            folder());
  }
  require(failure.empty(), "{}", failure);
}

TrainSummary RankSession::run() {
  begin_snapshots();
  if (world_.rank() == 0) output_.emplace(options_, job_, found_ ? found_->name.step : 0);
  state_.opened = true;
  tell_state();
  state_.weight_bytes = job_.step.layout.num_parameters * size_bytes(spec_.train.dtype);
  train();
  enter(RunSection::kEnd, steps_done_);
  failpoints_.pass("end", steps_done_);
  TrainSummary summary;
  summary.measured = measure();
  summary.stopped = steps_done_ < spec_.train.steps && !out_of_time_;
  summary.stop_signal = stop_signal_;
  summary.final_loss = final_loss_;
  finish(summary);
  if (output_.has_value()) summary.run_dir = folder();
  if (!options_.trace.empty()) {
    const bool same_clock = world_.backend() == "local" || world_.backend() == "shm";
    summary.trace = std::make_shared<TracedSteps>(
        trace_.gather(control_, same_clock, job_.step, job_.programs));
  }
  summary.plan = job_.plan;
  return summary;
}

TrainSummary run_session(const TrainOptions& options, const TrainJob& job, CommWorld& world,
                         Communicator& control) {
  return RankSession(options, job, world, control).run();
}

}  // namespace tessera

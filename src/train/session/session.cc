#include "train/session/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/failure.h"
#include "comm/local/local_world.h"
#include "data/text_doubt.h"
#include "launch/rank_failure.h"
#include "plan/report/plan_json.h"
#include "runtime/rank_threads.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/run_file.h"
#include "tensor/gpu_memory.h"
#include "train/directory/run_claim.h"
#include "train/directory/run_directory.h"
#include "train/machine_defaults.h"
#include "train/report/comm_report.h"
#include "train/report/event_log.h"
#include "train/report/measure.h"
#include "train/report/phase_report.h"
#include "train/report/router_load.h"
#include "train/report/straggler.h"
#include "train/session/control.h"
#include "train/session/divergence.h"
#include "train/session/final_weights.h"
#include "train/session/job.h"
#include "train/session/loss_scale.h"
#include "train/session/run_sets.h"
#include "train/session/spike_guard.h"
#include "train/session/step_params.h"
#include "train/session/system_memory.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kControlGroup = "control";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// 0: the run needs no GPU.
int64_t free_gpu_bytes(const RunSpec& spec, const TrainOptions& options) {
  return spec.train.device == TrainDevice::kCuda ? cuda::gpu_info(options.gpu).free_bytes : 0;
}

// One rank of a run.
class Session {
 public:
  Session(const TrainOptions& options, const TrainJob& job, CommWorld& world,
          Communicator& control);
  TrainSummary run();

 private:
  void start_run_directory();
  void write_resolved_run();
  void write_description();
  void write_tokenizer();
  std::string keep_run_directory();
  void log(const nlohmann::ordered_json& line);
  void append_event(const nlohmann::ordered_json& line);
  void note(const std::string& text) const;
  [[nodiscard]] const std::string& folder() const;
  void train();
  void count_step(int64_t step, Clock::time_point step_start);
  [[nodiscard]] std::string save();
  void describe_weights();
  void finish(const TrainSummary& summary);
  void report_step(int64_t step, const StepOutcome& outcome, const StepParams& params,
                   double step_seconds);
  [[nodiscard]] bool evaluates(int64_t step) const;
  void evaluate();
  [[nodiscard]] int wants_to_stop() const;
  [[nodiscard]] bool time_is_up();
  void keep_trace(int64_t step);
  void settle(const StepParams& params, const StepOutcome& outcome);
  [[noreturn]] void diverge(const StepParams& params, const StepOutcome& outcome);
  [[nodiscard]] std::string save_before_divergence();
  [[nodiscard]] nlohmann::ordered_json measure();
  void gather_memory();
  void fill_next(int64_t step);
  [[nodiscard]] PhaseTimes phases() const;

  const TrainOptions& options_;
  const TrainJob& job_;
  const RunSpec& spec_;
  CommWorld& world_;
  Communicator& control_;
  std::optional<ClaimedDirectory> claim_;  // rank 0 only, unless the caller has one
  std::optional<RunDirectory> directory_;  // rank 0 only
  std::optional<EventLog> events_;         // likewise, where it is asked for
  int64_t gpu_free_before_;
  Rank rank_;
  Executor executor_;
  LossScaler scaler_;
  SpikeGuard guard_;
  std::string skipped_;  // why the last step changed nothing; empty: it did
  Clock::time_point start_;
  double warm_seconds_ = 0;  // when the first step was done: it pays for page faults
  int64_t steps_done_ = 0;
  int stop_signal_ = 0;
  RunState state_;
  double final_loss_ = 0;
  std::optional<double> valid_loss_;  // of the last evaluation
  bool just_evaluated_ = false;       // in the step at hand
  int64_t eval_passes_ = 0;           // of the Program, in all evaluations
  double eval_seconds_ = 0;
  bool said_that_metrics_fail_ = false;
  bool said_that_directory_fails_ = false;
  // The clock at the last line of metrics.jsonl, and the step of that line.
  std::vector<CommTime> reported_times_;
  int64_t reported_step_ = 0;
  PhaseTimes reported_phases_;
  double data_seconds_ = 0;          // of filling inputs
  std::vector<int64_t> rank_bytes_;  // of the arenas of every rank
  RouterLoad load_;                  // of the last step
  Utilization utilization_;
  ComputeClock compute_;
  StepTrace trace_;
  bool out_of_time_ = false;
};

// A kernel or a collective of the other stream may take as long as a peer may be late.
ExecutorOptions execution(const RunSpec& spec, const TrainOptions& train, int rank) {
  ExecutorOptions options = executor_options(spec);
  options.timeout = std::max(options.timeout, 2 * comm_timeout(spec));
  options.fault = fault_of(train.inject, rank);
  return options;
}

Session::Session(const TrainOptions& options, const TrainJob& job, CommWorld& world,
                 Communicator& control)
    : options_(options),
      job_(job),
      spec_(job.step.spec),
      world_(world),
      control_(control),
      gpu_free_before_(free_gpu_bytes(spec_, options)),
      rank_(world, rank_options(spec_, options.gpu)),
      executor_(rank_, job.step, job.programs.at(world.rank()),
                execution(spec_, options, world.rank())),
      scaler_(spec_.train),
      guard_(spec_.train),
      utilization_(spec_, world, options.peak),
      trace_(spec_, options.trace, executor_.program().instructions.size()) {}

void Session::start_run_directory() {
  if (!options_.run_dir_claimed) {
    claim_.emplace(
        claim_run_directory({.path = spec_.logging.run_dir, .weights_from = spec_.model.hf}));
  }
  directory_.emplace(claim_.has_value() ? claim_->path() : spec_.logging.run_dir);
  if (!directory_->former_run().empty()) {
    note(fmt::format("the run that was in {} is now in {}", directory_->path(),
                     directory_->former_run()));
  }
  write_description();
}

// Where the run's files go; ranks other than 0 have none.
const std::string& Session::folder() const {
  return directory_.has_value() ? directory_->path() : spec_.logging.run_dir;
}

void Session::write_description() {
  write_resolved_run();
  if (!options_.config_text.empty()) directory_->write_text("config.toml", options_.config_text);
  directory_->write_json("plan.json", job_.plan);
  write_tokenizer();
  if (spec_.logging.tensorboard) events_.emplace(directory_->path(), unix_time());
}

// Whoever speaks with the model needs it. One of a run that was cut off must not stay.
void Session::write_tokenizer() {
  const DataSpec& data = spec_.data;
  std::string folder = data.is_sets() ? tokenizer_folder_of(spec_, training_sets(spec_)) : "";
  if (!data.chats.empty()) folder = data.tokenizer.empty() ? spec_.model.hf : data.tokenizer;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    const std::filesystem::path from = std::filesystem::path(folder) / name;
    std::error_code failure;
    std::filesystem::remove(directory_->file(name), failure);
    if (folder.empty() || !std::filesystem::exists(from, failure)) continue;
    std::filesystem::copy_file(from, directory_->file(name), failure);
    if (failure)
      note(fmt::format("cannot copy '{}' to the run: {}", from.string(), failure.message()));
  }
}

// As JSON for programs, and as a run file. What this machine has is not part of the latter; a
// schedule that came from a file is kept with the run.
void Session::write_resolved_run() {
  RunSpec resolved = spec_;
  resolved.logging.run_dir = directory_->path();
  directory_->write_json("resolved.json", to_json(resolved));
  resolved.cluster.memory_gib = options_.spec.cluster.memory_gib;
  if (resolved.parallel.schedule.is_file()) {
    directory_->write_text("schedule.csv", resolved.parallel.schedule_csv);
    resolved.parallel.schedule = PipelineChoice::parse(directory_->file("schedule.csv"));
  }
  directory_->write_text("resolved.toml", to_toml(resolved));
}

void Session::note(const std::string& text) const {
  if (options_.on_note) options_.on_note(text);
}

// Somebody may have removed the directory: what is still to come needs a place. Returns why nothing
// may be written there; empty: it may.
std::string Session::keep_run_directory() {
  if (!directory_->vanished()) return "";
  const std::string& path = directory_->path();
  try {
    if (!directory_->make_again()) return "";
    write_description();
    note(
        fmt::format("the run directory '{}' was removed: it was made again; metrics up to step {} "
                    "are lost",
                    path, steps_done_));
    return "";
  } catch (const Error& error) {
    if (!said_that_directory_fails_) {
      said_that_directory_fails_ = true;
      note(fmt::format(
          "the run directory '{}' was removed or replaced, and cannot be had again ({}): the run "
          "goes on without metrics",
          path, error.what()));
    }
    return directory_->is_ours() ? "" : error.what();
  }
}

void Session::log(const nlohmann::ordered_json& line) {
  (void)keep_run_directory();
  if (directory_->append_metrics(line) || said_that_metrics_fail_) return;
  said_that_metrics_fail_ = true;
  note(
      fmt::format("cannot write '{}': is the disk full? The run goes on without metrics, and will "
                  "try to write its weights at the end",
                  directory_->file("metrics.jsonl")));
}

// A disk that fills costs TensorBoard its curves, not the run.
void Session::append_event(const nlohmann::ordered_json& line) {
  if (!events_.has_value()) return;
  try {
    events_->append(line);
  } catch (const Error& error) {
    events_.reset();
    note(fmt::format("{}; the run goes on without events for TensorBoard", error.what()));
  }
}

void Session::report_step(int64_t step, const StepOutcome& outcome, const StepParams& params,
                          double step_seconds) {
  const double elapsed = seconds_since(start_) - eval_seconds_;
  const double mfu = utilization_.of_step(step_seconds);
  const auto tokens_per_step = static_cast<double>(spec_.train.global_batch * spec_.train.seq_len);
  if (step == 1) warm_seconds_ = elapsed;
  // The first step is left out of the rate once there are others.
  const double rate = step == 1 ? tokens_per_step / elapsed
                                : tokens_per_step * static_cast<double>(step - 1) /
                                      std::max(1e-9, elapsed - warm_seconds_);
  const bool due = step % std::max<int64_t>(1, spec_.logging.every) == 0;
  if (due || step == spec_.train.steps || !skipped_.empty() || just_evaluated_) {
    nlohmann::ordered_json line = {
        {"step", step},
        {"time", unix_time()},
        {"loss", outcome.loss},
        {"lr", params.lr},
        {"grad_norm", outcome.grad_norm},
        {"tokens", step * spec_.train.global_batch * spec_.train.seq_len},
        {"tokens_per_s", rate},
        {"step_ms", step_seconds * 1e3}};
    if (just_evaluated_) {
      line["valid_loss"] = *valid_loss_;
      line["valid_perplexity"] = std::exp(*valid_loss_);
    }
    if (mfu > 0) line["mfu"] = mfu;
    if (spec_.train.dtype == DType::kF16) line["loss_scale"] = params.loss_scale;
    if (spec_.train.dtype == DType::kF16 || guard_.on()) {
      line["skipped_steps"] = scaler_.skipped() + guard_.skipped();
    }
    if (!skipped_.empty()) line["skipped"] = skipped_;
    const std::vector<CommTime> times = executor_.comm_times();
    if (!times.empty()) {
      line["exposed_ms"] = exposed_ms(reported_times_, times, step - reported_step_);
    }
    line["memory_bytes"] = memory_of_ranks(rank_bytes_);
    // The host of a GPU does not see when its kernels run.
    if (spec_.train.device != TrainDevice::kCuda) {
      line["phase_ms"] = phase_ms(reported_phases_, phases(), step - reported_step_);
    }
    reported_phases_ = phases();
    reported_times_ = times;
    reported_step_ = step;
    if (!load_.empty()) line["experts"] = to_json(load_);
    log(line);
    append_event(line);
  }
  if (options_.on_progress) {
    const double left = static_cast<double>(spec_.train.steps - step) * tokens_per_step / rate;
    options_.on_progress({step, spec_.train.steps, outcome.loss, outcome.grad_norm, params.lr, rate,
                          left, mfu, !skipped_.empty(), valid_loss_.value_or(0)});
  }
}

PhaseTimes Session::phases() const {
  return {executor_.pass_seconds(), exposed_seconds(executor_.comm_times()), data_seconds_};
}

// What the arenas were given, which stays so for the whole run. All ranks call it.
void Session::gather_memory() {
  int64_t mine = 0;
  for (const ArenaKind arena : kAllArenas) mine += executor_.arena_bytes(arena);
  for (const std::string& bytes : exchange_texts(control_, std::to_string(mine))) {
    rank_bytes_.push_back(std::stoll(bytes));
  }
}

void Session::fill_next(int64_t step) {
  const Clock::time_point start = Clock::now();
  fill_inputs(executor_, spec_, step, job_.samples);
  data_seconds_ += seconds_since(start);
}

int Session::wants_to_stop() const {
  const int signal = options_.should_stop ? options_.should_stop() : 0;
  return signal == 0 && world_.stop_requested() ? SIGTERM : signal;
}

void Session::count_step(int64_t step, Clock::time_point step_start) {
  steps_done_ = step;
  state_.steps_done = step;
  state_.longest_step_us =
      std::max(state_.longest_step_us, static_cast<int64_t>(seconds_since(step_start) * 1e6));
  if (options_.on_state) options_.on_state(state_);
}

// All ranks save; empty, or why the weights are not in the run directory. Never without a step:
// weights that nobody trained must not take the place of others.
std::string Session::save() {
  TESSERA_CHECK(steps_done_ > 0, "weights without a step");
  state_.saving = true;
  if (options_.on_state) options_.on_state(state_);
  const Clock::time_point begin = Clock::now();
  const auto on_growth = [&] {
    state_.saving_us = static_cast<int64_t>(seconds_since(begin) * 1e6);
    if (options_.on_state) options_.on_state(state_);
  };
  const std::string failure = save_or_rescue({.path = folder() + "/model.safetensors",
                                              .make_room = [this] { return keep_run_directory(); },
                                              .on_growth = on_growth,
                                              .rescue_dir = options_.rescue_dir,
                                              .step = steps_done_},
                                             job_.step, executor_, control_);
  state_.saving = false;
  state_.saved_step = failure.empty() ? steps_done_ : -1;
  if (options_.on_state) options_.on_state(state_);
  if (failure.empty() && directory_.has_value()) describe_weights();
  return failure;
}

// What other programs need to read the weights; without it they are still the weights.
void Session::describe_weights() {
  try {
    if (const auto config = hf_config(spec_)) directory_->write_json("config.json", *config);
  } catch (const Error& error) {
    note(error.what());
  }
}

// Rank 0's clock decides for all.
bool Session::time_is_up() {
  if (options_.max_seconds <= 0) return false;
  const bool reached = world_.rank() == 0 && seconds_since(start_) >= options_.max_seconds;
  out_of_time_ = largest_of_ranks(control_, reached ? 1 : 0) != 0;
  return out_of_time_;
}

// Instructions are timed from the first step of the trace to its last.
void Session::keep_trace(int64_t step) {
  if (trace_.wants(step)) trace_.keep(step, executor_.instruction_times()->spans());
  if (trace_.wants(step + 1) != trace_.wants(step)) {
    executor_.time_instructions(trace_.wants(step + 1));
  }
}

// An overflow that a lower loss scale can cure, and a spike that the guard leaves out, cost a step,
// not the run.
void Session::settle(const StepParams& params, const StepOutcome& outcome) {
  skipped_.clear();
  if (outcome.overflowed() && scaler_.can_fall()) return scaler_.after_overflow();
  skipped_ = guard_.reason(params, outcome);
  if (skipped_.empty()) {
    if (!outcome.finite()) diverge(params, outcome);
    guard_.after_update(outcome);
    return scaler_.after_update();
  }
  guard_.after_skip(params, outcome);
  if (guard_.gives_up()) diverge(params, outcome);
  if (directory_.has_value()) {
    note(fmt::format("step {} changed nothing: {}", steps_done_ + 1, skipped_));
  }
}

// Which weights a run keeps whose next step is not finite, for the message. All ranks call it.
std::string Session::save_before_divergence() {
  if (is_asynchronous(spec_.parallel)) {
    return "stages have updated their weights within the step, so none were saved";
  }
  const bool finite = largest_of_ranks(control_, weights_are_finite(executor_) ? 0 : 1) == 0;
  if (steps_done_ == 0) {
    return fmt::format("{}no step was done, so no weights were saved",
                       finite ? "" : "the weights that it began with are not finite, and ");
  }
  if (!finite) {
    return fmt::format("the weights of step {} are not finite either, so none were saved",
                       steps_done_);
  }
  const std::string failure = save();
  if (!failure.empty()) return failure;
  return fmt::format("the weights of step {} are unchanged and saved in '{}'", steps_done_,
                     folder());
}

// Every rank comes here in the same step, because all see the same sums. Rank 0 speaks for all: the
// others wait until its words have ended the world, so that nobody leaves before they are said.
void Session::diverge(const StepParams& params, const StepOutcome& outcome) {
  const int64_t step = steps_done_ + 1;
  if (directory_.has_value()) {
    log({{"event", "nan"},
         {"step", step},
         {"time", unix_time()},
         {"loss", outcome.loss},
         {"grad_norm", outcome.grad_norm}});
  }
  std::optional<BadTensor> mine;
  if (!outcome.finite()) {
    fill_inputs(executor_, spec_, step, job_.samples);  // those of the next may be there already
    const Executor::Probe injected = injection_probe(options_.inject, executor_, step);
    mine = find_first_nonfinite(executor_, params, injected);
  }
  std::optional<FoundTensor> first;
  std::string weights;
  try {
    first = first_over_ranks(control_, mine);
    weights = save_before_divergence();
    if (world_.rank() != 0) control_.barrier();
  } catch (const CommError&) {
    if (world_.rank() == 0) throw;
    throw Error(world_.abort_reason(), ExitCode::kDiverged);
  }
  const std::string where =
      first.has_value() ? fmt::format("the first tensor that is not finite is {} on rank {} ({})",
                                      first->tensor.description, first->rank,
                                      job_.step.mesh.describe(first->rank))
                        : fmt::format("the loss is {} and the norm of the gradient {}",
                                      outcome.loss, outcome.grad_norm);
  const std::string skipped =
      guard_.gives_up() ? fmt::format(
                              "{} steps one after another were skipped (train.spike_limit), "
                              "of the last ",
                              guard_.in_a_row())
                        : "";
  throw Error(
      fmt::format("numeric divergence at step {}: {}{}; {}, try {}", step, skipped, where, weights,
                  outcome.overflowed() && spec_.train.loss_scale > 0
                      ? "train.loss_scale = 0, which adapts"
                      : "a lower optimizer.lr"),
      ExitCode::kDiverged);
}

bool Session::evaluates(int64_t step) const {
  if (job_.held_out.empty()) return false;
  return step % spec_.eval.every == 0 || step == spec_.train.steps;
}

// The Program of the run, told to change nothing, on samples that it is not trained on: no memory
// beside the planned, and on every mesh what one rank would compute.
void Session::evaluate() {
  const Clock::time_point begin = Clock::now();
  executor_.set_probe({});
  executor_.count_times(false);
  StepParams params = step_params(spec_, 1);
  params.evaluate = true;
  double loss = 0, tokens = 0;
  for (int64_t batch = 1; batch <= job_.held_out.batches; ++batch) {
    fill_inputs(executor_, spec_, batch, job_.held_out.samples);
    const StepOutcome outcome = executor_.run(params);
    loss += outcome.loss * outcome.tokens;
    tokens += outcome.tokens;
  }
  eval_passes_ += job_.held_out.batches;
  (void)take_router_load(executor_, control_);
  executor_.count_times(true);
  valid_loss_ = loss / std::max(1.0, tokens);
  eval_seconds_ += seconds_since(begin);
}

void Session::train() {
  load_weights(executor_, job_.step,
               inject_into_weights(options_.inject, world_.rank(), job_.weights));
  gather_memory();
  fill_next(1);
  if (executor_.tune()) {
    control_.barrier();  // as in measure()
    executor_.reset_traffic();
  }
  keep_trace(0);
  start_ = Clock::now();
  for (int64_t step = 1; step <= spec_.train.steps; ++step) {
    const Clock::time_point step_start = Clock::now();
    const bool last = step == spec_.train.steps;
    StepParams params = step_params(spec_, step);
    scaler_.apply_to(params);
    guard_.apply_to(params);
    executor_.set_probe(injection_probe(options_.inject, executor_, step));
    const Clock::time_point launched = Clock::now();
    executor_.start(params);
    // A GPU is fed while it computes; on the CPU the inputs are in use until the step is over.
    const bool early = executor_.inputs_free();
    if (early && !last) fill_next(step + 1);
    const StepOutcome outcome = executor_.finish();
    compute_.add_step(seconds_since(launched));
    keep_trace(step);
    settle(params, outcome);
    load_ = take_router_load(executor_, control_);
    if (!early && !last && !evaluates(step)) fill_next(step + 1);
    const double step_seconds = seconds_since(step_start);
    just_evaluated_ = evaluates(step);
    if (just_evaluated_) evaluate();
    if (just_evaluated_ && !last) fill_next(step + 1);
    count_step(step, step_start);
    final_loss_ = outcome.loss;
    if (directory_.has_value()) report_step(step, outcome, params, step_seconds);
    if (step == 1 && directory_.has_value() && options_.on_note) {
      for (const std::string& note : executor_.notes()) options_.on_note(note);
      if (const std::string note = data_note(spec_.data.path); !note.empty())
        options_.on_note(note);
    }
    if (step == 1 && !last) {  // it pays for page faults
      executor_.reset_comm_times();
      reported_times_.clear();
      reported_phases_ = phases();
      reported_step_ = 1;
      compute_.reset();
    }
    if (last) continue;
    if (time_is_up()) return;
    stop_signal_ = static_cast<int>(largest_of_ranks(control_, wants_to_stop()));
    if (stop_signal_ != 0) return;
  }
}

// All ranks report; rank 0 has use for it.
nlohmann::ordered_json Session::measure() {
  const double elapsed = seconds_since(start_);
  control_.barrier();  // what a rank has sent is counted when its last peer has it
  const int64_t timed_steps = std::max<int64_t>(1, steps_done_ - 1);
  const nlohmann::ordered_json mine = {
      {"rank", measured_rank_json(executor_, steps_done_ + eval_passes_)},
      {"peak_resident_bytes", peak_resident_bytes()},
      {"gpu_free_before", gpu_free_before_},
      {"gpu_free_after", free_gpu_bytes(spec_, options_)},
      {"compute_ms", compute_.ms_per_step(exposed_seconds(executor_.comm_times()))},
      {"comm_times", comm_times_json(executor_.comm_times(), timed_steps)}};
  nlohmann::ordered_json json =
      document_head("run", job_.step.mesh, job_.step.layout.num_parameters);
  std::vector<SystemMemory> memory;
  std::vector<nlohmann::ordered_json> comm_times;
  std::vector<double> compute_ms;
  for (const std::string& text : exchange_texts(control_, mine.dump())) {
    const auto report = nlohmann::ordered_json::parse(text);
    json["ranks"].push_back(report.at("rank"));
    memory.push_back({report.at("peak_resident_bytes").get<int64_t>(),
                      report.at("gpu_free_before").get<int64_t>(),
                      report.at("gpu_free_after").get<int64_t>()});
    comm_times.push_back(report.at("comm_times"));
    compute_ms.push_back(report.at("compute_ms").get<double>());
  }
  const auto tokens = static_cast<double>(spec_.train.global_batch * spec_.train.seq_len);
  json["backend"] = world_.backend();
  if (const auto graph = executor_.graph_text()) json["cuda_graph"] = *graph;
  json["steps"] = steps_done_;
  json["final_loss"] = final_loss_;
  if (valid_loss_.has_value()) {
    json["valid_loss"] = *valid_loss_;
    json["valid_perplexity"] = std::exp(*valid_loss_);
  }
  json["seconds"] = elapsed;
  const double trained = elapsed - eval_seconds_;
  json["tokens_per_s"] = steps_done_ > 1 ? tokens * static_cast<double>(steps_done_ - 1) /
                                               std::max(1e-9, trained - warm_seconds_)
                                         : tokens / trained;
  add_system_memory(memory, world_.backend() == "local", json);
  json["communication_time"] = merge_comm_times(comm_times);
  // The host of a GPU does not see when its kernels wait.
  if (spec_.train.device != TrainDevice::kCuda) {
    add_compute_times(job_.step.mesh, compute_ms, json);
  }
  if (out_of_time_) {
    json["out_of_time"] = {{"max_minutes", options_.max_seconds / 60},
                           {"planned_steps", spec_.train.steps}};
  }
  return json;
}

// Rank 0 speaks for all where the files of the end cannot be written.
void Session::finish(const TrainSummary& summary) {
  const std::string failure = steps_done_ > 0 ? save() : "";
  if (!directory_.has_value()) return;
  try {
    if (directory_->is_ours()) directory_->write_json("summary.json", summary.measured);
  } catch (const Error& error) {
    require(!failure.empty(), "{}; the weights of step {} are in '{}'", error.what(), steps_done_,
            folder());
  }
  require(failure.empty(), "{}", failure);
}

TrainSummary Session::run() {
  if (world_.rank() == 0) start_run_directory();
  state_.weight_bytes = job_.step.layout.num_parameters * size_bytes(spec_.train.dtype);
  train();
  TrainSummary summary;
  summary.measured = measure();
  summary.stopped = steps_done_ < spec_.train.steps && !out_of_time_;
  summary.stop_signal = stop_signal_;
  summary.final_loss = final_loss_;
  finish(summary);
  if (directory_.has_value()) summary.run_dir = directory_->path();
  if (!options_.trace.empty()) {
    const bool same_clock = world_.backend() == "local" || world_.backend() == "shm";
    summary.trace = std::make_shared<TracedSteps>(
        trace_.gather(control_, same_clock, job_.step, job_.programs));
  }
  summary.plan = job_.plan;
  return summary;
}

void require_room(const TrainJob& job, int gpu) {
  if (job.step.spec.train.device != TrainDevice::kCuda) return;
  std::vector<const Program*> programs;
  for (const auto& [rank, program] : job.programs) programs.push_back(&program);
  require_room_on_gpu(programs, gpu);
}

TrainSummary abort_on_failure(CommWorld& world, const std::function<TrainSummary()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    if (failure.code == ExitCode::kDiverged) {
      world.abort(failure.text);  // of the run, not of a rank
    } else {
      abort_as_rank(world, failure.text);
    }
    throw;
  }
}

}  // namespace

std::chrono::milliseconds comm_timeout(const RunSpec& spec) {
  return std::chrono::milliseconds(std::llround(spec.train.comm_timeout * 1e3));
}

int threads_of_rank(const RunSpec& spec) { return static_cast<int>(spec.train.threads) + 1; }

TrainSummary train_rank(const TrainOptions& options, CommWorld& world) {
  return train_rank(options, world, world);
}

TrainSummary train_rank(const TrainOptions& options, CommWorld& host, CommWorld& gpus) {
  return abort_on_failure(host, [&] {
    const std::unique_ptr<Communicator> control = host.join_all(kControlGroup);
    const RunSpec spec = agree_on_spec(*control, options.spec, options.ranks_on_host);
    const int rank = host.rank();
    const TrainJob job = prepare_job(spec, options.inject, {&rank, 1});
    require_room(job, options.gpu);
    if (options.host_refusal) {
      require_room_on_hosts(*control, job.programs.at(rank).total_bytes(), options.host_refusal);
    }
    return Session(options, job, gpus, *control).run();
  });
}

TrainSummary run_training(const TrainOptions& options) {
  RunSpec spec = options.spec;
  use_machine_defaults(spec);
  std::vector<int> ranks(static_cast<size_t>(spec.parallel.world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const TrainJob job = prepare_job(spec, options.inject, ranks);
  require_room(job, options.gpu);
  LocalWorldOptions world_options;
  world_options.size = static_cast<int>(ranks.size());
  world_options.timeout = comm_timeout(spec);
  world_options.busy_threads = threads_of_rank(spec);
  if (spec.train.device == TrainDevice::kCuda) world_options.gpu = options.gpu;
  LocalWorld local(world_options);
  TrainSummary summary;
  run_rank_threads(local, [&](int rank) {
    CommWorld& world = local.endpoint(rank);
    TrainSummary mine = abort_on_failure(world, [&] {
      const std::unique_ptr<Communicator> control = world.join_all(kControlGroup);
      return Session(options, job, world, *control).run();
    });
    if (rank == 0) summary = std::move(mine);
  });
  return summary;
}

}  // namespace tessera

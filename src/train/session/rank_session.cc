#include "train/session/rank_session.h"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "checkpoint/store/box_reader.h"
#include "checkpoint/store/watched_files.h"
#include "data/text_doubt.h"
#include "launch/rank_list.h"
#include "launch/rendezvous/token.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/run_file.h"
#include "tensor/gpu_memory.h"
#include "train/machine_defaults.h"
#include "train/report/comm_report.h"
#include "train/report/slow_rank.h"
#include "train/session/checkpoints.h"
#include "train/session/control.h"
#include "train/session/divergence.h"
#include "train/session/evaluation.h"
#include "train/session/final_weights.h"
#include "train/session/load_attempt.h"
#include "train/session/loss_scale.h"
#include "train/session/run_summary.h"
#include "train/session/run_writer.h"
#include "train/session/sample_ledger.h"
#include "train/session/session_clock.h"
#include "train/session/snapshots.h"
#include "train/session/spike_guard.h"
#include "train/session/step_params.h"
#include "train/session/step_reporter.h"
#include "train/state/rank_state.h"
#include "train/state/replicas.h"

namespace tessera {
namespace {

constexpr const char* kInMemory = "memory";  // where a run goes on that no path names

// 0: the run needs no GPU.
int64_t free_gpu_bytes(const RunSpec& spec, const TrainOptions& options) {
  return spec.train.device == TrainDevice::kCuda ? cuda::gpu_info(options.gpu).free_bytes : 0;
}

class Session {
 public:
  Session(const TrainOptions& options, const TrainJob& job, CommWorld& world,
          Communicator& control);
  TrainSummary run();

 private:
  void train();
  [[nodiscard]] Executor::Probe probe_of(int64_t step);
  void begin_weights();
  [[nodiscard]] std::string place_to_go_on_from();
  [[nodiscard]] bool resume(const std::string& place);
  void load_from(const FileOps& files, const CheckpointFolder& checkpoint);
  void begin_snapshots();
  void resume_from_memory();
  void tell_where_from(const std::string& place) const;
  void go_on(int64_t step, const nlohmann::json& state, const SaveId& last_save,
             const std::string& place);
  void begin_checkpoints();
  [[nodiscard]] std::shared_ptr<FileOps> open_files(const std::string& dir, bool make);
  [[nodiscard]] nlohmann::json state_of(int64_t step) const;
  void begin_save(int64_t step);
  void begin_snapshot(int64_t step);
  void tell_save(const SaveNews& news);
  void save_if_due(int64_t step);
  void keep_saving();
  void end_checkpoints();
  void gather_memory();
  void fill_next(int64_t step);
  [[nodiscard]] StepOutcome run_step(int64_t step, StepParams& params);
  void evaluate(int64_t step);
  void settle(const StepParams& params, const StepOutcome& outcome);
  [[noreturn]] void diverge(const StepParams& params, const StepOutcome& outcome);
  [[nodiscard]] std::string save_before_divergence();
  void count_step(int64_t step, double step_seconds);
  void report_step(const StepParams& params, const StepOutcome& outcome, double step_seconds);
  void tell_notes() const;
  void forget_first_step();
  void look_for_slow_rank();
  void compare_replicas(int64_t step);
  void flip_a_bit();
  void keep_trace(int64_t step);
  [[nodiscard]] bool ends_early();
  [[nodiscard]] int wants_to_stop() const;
  [[nodiscard]] bool time_is_up();
  [[nodiscard]] std::string save();
  [[nodiscard]] nlohmann::ordered_json measure();
  void finish(const TrainSummary& summary);
  void tell_state() const;
  void enter(RunSection section, int64_t step);
  [[nodiscard]] const std::string& folder() const;

  const TrainOptions& options_;
  const TrainJob& job_;
  const RunSpec& spec_;
  Failpoints failpoints_;
  CommWorld& world_;
  Communicator& control_;
  std::optional<RunWriter> output_;  // rank 0 only
  int64_t gpu_free_before_;
  Rank rank_;
  Executor executor_;
  LossScaler scaler_;
  SpikeGuard guard_;
  Evaluation evaluation_;
  SampleLedger samples_;
  StepReporter report_;
  StepTrace trace_;
  std::string skipped_;  // why the last step changed nothing; empty: it did
  HostTimer timer_;      // from the first step on
  int64_t steps_done_ = 0;
  int stop_signal_ = 0;
  bool out_of_time_ = false;
  RunState state_;
  std::optional<Snapshots> snapshots_;      // where memory outlives this process
  std::optional<FoundSnapshot> found_;      // that all ranks have
  std::optional<Checkpoints> checkpoints_;  // where the run file asks for them
  HostTimer saving_timer_;                  // since the run began to wait for a save
  std::string samples_hash_;                // of all ranks, when it was last asked for
  int64_t before_ = 0;  // steps that the checkpoint has, which the run goes on from
  SaveId save_id_;      // rank 0 only
  double final_loss_ = 0;
  double data_seconds_ = 0;  // of filling inputs
  RouterLoad load_;          // of the last step
  ComputeClock compute_;
  std::vector<double> step_compute_ms_;  // since ranks were last compared
  int64_t compared_step_ = 0;
  int slow_rank_ = -1;  // that was said to be
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
const std::string& Session::folder() const {
  return output_.has_value() ? output_->directory().path() : spec_.logging.run_dir;
}

void Session::tell_state() const {
  if (options_.on_state) options_.on_state(state_);
}

void Session::enter(RunSection section, int64_t step) {
  state_.section = section;
  state_.step = step;
  tell_state();
}

// What the arenas were given, which stays so for the whole run. All ranks call it.
void Session::gather_memory() {
  int64_t mine = 0;
  for (const ArenaKind arena : kAllArenas) mine += executor_.arena_bytes(arena);
  std::vector<int64_t> rank_bytes;
  for (const std::string& bytes : exchange_texts(control_, std::to_string(mine))) {
    rank_bytes.push_back(std::stoll(bytes));
  }
  report_.set_memory(std::move(rank_bytes));
}

void Session::fill_next(int64_t step) {
  const HostTimer timer;
  fill_inputs(executor_, spec_, step, samples_.watch(job_.samples.fill, step), job_.samples.starts);
  data_seconds_ += timer.seconds();
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
  if (output_.has_value()) {
    output_->note(fmt::format("step {} changed nothing: {}", steps_done_ + 1, skipped_));
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
  if (output_.has_value()) {
    output_->log({{"event", "nan"},
                  {"step", step},
                  {"time", unix_seconds()},
                  {"loss", outcome.loss},
                  {"grad_norm", outcome.grad_norm}});
  }
  std::optional<BadTensor> mine;
  if (!outcome.finite()) {
    fill_next(step);  // those of the step after it may be there already
    const Executor::Probe injected = injection_probe(options_.inject, executor_, step);
    mine = find_first_nonfinite(executor_, params, injected);
  }
  std::optional<FoundTensor> first;
  std::string weights;
  try {
    first = first_over_ranks(control_, mine);
    if (checkpoints_.has_value()) checkpoints_->finish();  // the last before it
    weights = save_before_divergence();
    if (world_.rank() != 0) control_.barrier();
  } catch (const CommError&) {
    if (world_.rank() == 0) throw;
    throw Error(world_.abort_reason(), ExitCode::kDiverged);
  }
  const int64_t skipped = guard_.gives_up() ? guard_.in_a_row() : 0;
  const bool scale_is_fixed = outcome.overflowed() && spec_.train.loss_scale > 0;
  throw Error(
      fmt::format("numeric divergence at step {}: {}; {}, try {}", step,
                  describe_divergence(first, outcome, skipped, job_.step.mesh), weights,
                  scale_is_fixed ? "train.loss_scale = 0, which adapts" : "a lower optimizer.lr"),
      ExitCode::kDiverged);
}

void Session::count_step(int64_t step, double step_seconds) {
  steps_done_ = step;
  samples_.count(step);
  if (output_.has_value()) output_->count_step(step);
  state_.steps_done = step;
  state_.longest_step_us =
      std::max(state_.longest_step_us, static_cast<int64_t>(step_seconds * 1e6));
  tell_state();
}

void Session::report_step(const StepParams& params, const StepOutcome& outcome,
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
void Session::tell_notes() const {
  if (!output_.has_value() || !options_.on_note) return;
  for (const std::string& note : executor_.notes()) output_->note(note);
  if (const std::string note = data_note(spec_.data.path); !note.empty()) output_->note(note);
}

// It pays for page faults.
void Session::forget_first_step() {
  executor_.reset_comm_times();
  report_.forget_first_step(data_seconds_);
  compute_.reset();
}

std::string_view point_of(const Instruction& instruction) {
  if (is_communication(instruction.op)) return "step.collective";
  switch (instruction.tag.pass) {
    case Pass::kForward:
      return "step.forward";
    case Pass::kUpdate:
      return "step.update";
    default:
      return "step.backward";
  }
}

// What is to happen between the instructions of a step; usually nothing.
Executor::Probe Session::probe_of(int64_t step) {
  Executor::Probe injected = injection_probe(options_.inject, executor_, step);
  if (!failpoints_.armed("step.", step)) return injected;
  return [this, step, injected = std::move(injected)](size_t index, const Instruction& i) {
    if (injected) injected(index, i);
    failpoints_.pass(point_of(i), step);
  };
}

// Times of a GPU's kernels are not the host's.
void Session::look_for_slow_rank() {
  if (step_compute_ms_.size() < kSlowWindow) return;
  const std::vector<double> mine = std::exchange(step_compute_ms_, {});
  if (world_.size() == 1 || spec_.train.device == TrainDevice::kCuda) return;
  std::vector<std::vector<double>> compute_ms;
  for (const std::string& text : exchange_texts(control_, nlohmann::json(mine).dump())) {
    compute_ms.push_back(nlohmann::json::parse(text).get<std::vector<double>>());
  }
  const std::optional<Straggler> slow = find_slow_rank(job_.step.mesh, compute_ms);
  const int rank = slow ? slow->rank : -1;
  if (!output_.has_value() || rank == std::exchange(slow_rank_, rank) || !slow) return;
  output_->note(fmt::format(
      "rank {} is slow: {:.3g} ms of its own in a step, where {:.3g} ms are usual; all wait for it",
      rank, slow->compute_ms, slow->median_ms));
  output_->event({{"event", "verdict"},
                  {"verdict", "slow"},
                  {"rank", rank},
                  {"generation", options_.generation},
                  {"phase", "step"},
                  {"step", steps_done_},
                  {"compute_ms", slow->compute_ms},
                  {"median_ms", slow->median_ms}});
}

// A high bit of the mantissa of a weight near the loss, so that all gradients notice.
void Session::flip_a_bit() {
  const std::vector<BucketBuffers>& buckets = executor_.program().buckets;
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    if (bucket->weights == kNoBuffer) continue;
    executor_.edit(bucket->weights, [](const Tensor& contents) {
      auto* bytes = static_cast<unsigned char*>(contents.data);
      bytes[size_bytes(contents.dtype) - 2] ^= 0x20U;
    });
    return;
  }
}

// Every rank sees the same hashes. The odd one speaks, and ends the world; the others wait until it
// has.
void Session::compare_replicas(int64_t step) {
  if (std::exchange(compared_step_, step) == step) return;
  std::vector<std::vector<HeldState>> held;
  for (const std::string& text :
       exchange_texts(control_, text_of(hash_state(executor_, job_.step)))) {
    held.push_back(parse_held_state(text));
  }
  const std::optional<ReplicaDifference> difference = find_difference(held);
  if (!difference) return;
  if (output_.has_value()) {
    output_->event({{"event", "verdict"},
                    {"verdict", "corrupt"},
                    {"rank", difference->odd.front()},
                    {"ranks", difference->odd},
                    {"majority", difference->majority},
                    {"generation", options_.generation},
                    {"phase", "step"},
                    {"step", step},
                    {"what", difference->what}});
  }
  const std::string text = fmt::format(
      "after step {} its '{}' is not that of the other {} that hold it: an error of "
      "its memory or its processor",
      step, difference->what, difference->holders.size() - difference->odd.size());
  if (world_.rank() == difference->odd.front()) {
    require(!difference->majority, "{}", text);
    const std::string all = fmt::format(
        "after step {} {} hold different bytes of '{}', and there is no majority: an error of "
        "the memory or the processor of one of them",
        step, rank_list(difference->odd), difference->what);
    world_.abort(all);
    throw Error(all);
  }
  control_.barrier();
}

// Runs step `step`, whose inputs are there, and fills in those of the next, if the inputs are not
// wanted for an evaluation first.
StepOutcome Session::run_step(int64_t step, StepParams& params) {
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

void Session::evaluate(int64_t step) {
  if (!evaluation_.due_after(step)) return;
  enter(RunSection::kEvaluation, step);
  failpoints_.pass("eval", step);
  evaluation_.run(executor_, control_);
  if (step < spec_.train.steps) fill_next(step + 1);
}

// Before the run directory is opened: how far it has come depends on what is found.
void Session::begin_snapshots() {
  if (options_.kept_fd < 0 || spec_.checkpoint.memory_every == 0) return;
  snapshots_.emplace(
      Snapshots::Kept{options_.kept_fd, options_.generation, options_.ranks_on_host}, spec_,
      job_.step, executor_, control_,
      [this](const char* point, int64_t step) { return failpoints_.pass(point, step); });
  found_ = snapshots_->find([this](const std::string& text) {
    if (options_.on_note) options_.on_note(text);
  });
}

// Rank 0's word, on every rank: a checkpoint as its folder and its name, kInMemory, or nothing.
std::string Session::place_to_go_on_from() {
  std::string place;
  if (output_.has_value() && output_->resumes_from_memory()) {
    place = kInMemory;
  } else if (output_.has_value() && output_->resumed().has_value()) {
    place = output_->resumed()->dir + "\n" + output_->resumed()->checkpoint.folder;
  }
  return text_of_rank_zero(control_, place);
}

// The weights of the beginning, or all of the state that the run goes on from. Whether the data of
// a checkpoint is what was written shows when it is read: another place is looked for until one is.
void Session::begin_weights() {
  for (bool loaded = false; !loaded;) {
    const std::string place = place_to_go_on_from();
    if (place.empty()) {
      load_weights(executor_, job_.step,
                   inject_into_weights(options_.inject, world_.rank(), job_.weights));
      loaded = true;
    } else if (place == kInMemory) {
      resume_from_memory();
      loaded = true;
    } else {
      loaded = resume(place);
    }
  }
  if (spec_.checkpoint.on()) begin_checkpoints();
}

// False, on every rank: one of them could not read it, and rank 0 knows another place.
bool Session::resume(const std::string& place) {
  const size_t cut = place.rfind('\n');
  const std::string dir = place.substr(0, cut);
  const std::string folder = place.substr(cut + 1);
  const HostTimer timer;
  // It ends on no rank before all have read: what was cut off between COMMIT and its name gets the
  // name next.
  const std::optional<LoadFailure> failure = try_to_load(control_, [&] {
    const std::unique_ptr<FileOps> files = real_files(dir);
    const CheckpointFolder checkpoint = open_checkpoint(*files, folder, options_.allow_unchecked);
    failpoints_.pass("load", checkpoint.step());
    load_from(*files, checkpoint);
    go_on(checkpoint.step(), checkpoint.state, checkpoint.commit.head.id,
          fmt::format("'{}/{}'", dir, folder));
  });
  if (failure) {
    if (output_.has_value()) output_->pass_over(failure->rank, failure->why);
    return false;
  }
  if (!output_.has_value()) return true;
  tell_where_from(fmt::format("'{}/{}'", dir, folder));
  output_->event({{"event", "resume"},
                  {"step", before_},
                  {"rank", world_.rank()},
                  {"checkpoint", dir + "/" + folder},
                  {"seconds", timer.seconds()}});
  return true;
}

void Session::tell_where_from(const std::string& place) const {
  output_->note(fmt::format("goes on after step {} of {}", before_, place));
  if (before_ < spec_.train.steps) return;
  output_->note(fmt::format("train.steps = {}: nothing is left to do; a larger one goes on",
                            spec_.train.steps));
}

// Where a fault is armed, it is met before every box that is read, and boxes are read one by one.
void Session::load_from(const FileOps& files, const CheckpointFolder& checkpoint) {
  const StateLayout layout = lay_out_state(job_.step);
  if (!failpoints_.armed("load.chunk", checkpoint.step())) {
    (void)load_state(executor_, job_.step, layout, files, checkpoint);
    return;
  }
  load_state(executor_, job_.step, layout, [&](std::span<const WantedBox> wanted) {
    for (const WantedBox& box : wanted) {
      failpoints_.pass("load.chunk", checkpoint.step());
      (void)read_boxes(files, checkpoint, {&box, 1});
    }
  });
}

void Session::resume_from_memory() {
  const HostTimer timer;
  failpoints_.pass("load", found_->name.step);
  snapshots_->load(*found_);
  const nlohmann::json note = nlohmann::json::parse(found_->note);
  go_on(found_->name.step, note.at("state"),
        {note.at("run").get<std::string>(), note.at("generation").get<uint64_t>(), ""},
        "the snapshot in memory");
  if (!output_.has_value()) return;
  tell_where_from("the snapshot in memory");
  output_->event({{"event", "resume"},
                  {"step", before_},
                  {"rank", world_.rank()},
                  {"memory", true},
                  {"seconds", timer.seconds()}});
}

// `state`: as state_of() made it.
void Session::go_on(int64_t step, const nlohmann::json& state, const SaveId& last_save,
                    const std::string& place) {
  try {
    scaler_.restore(state.at("loss_scale"));
    guard_.restore(state.at("spike_guard"));
    final_loss_ = state.value("loss", 0.0);
    samples_.restore(state.value("samples_hash", ""));
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("state.json of {} is damaged: {}; use another checkpoint", place, error.what()),
        ExitCode::kCorrupt);
  }
  before_ = step;
  steps_done_ = before_;
  state_.steps_done = before_;
  report_.begin_at(before_ + 1);
  save_id_ = {last_save.run, last_save.generation + 1, ""};
}

// Where a fault is armed, it is met before every change of a file.
std::shared_ptr<FileOps> Session::open_files(const std::string& dir, bool make) {
  struct Watched {
    std::unique_ptr<FileOps> files;
    WatchedFiles watched;
  };
  std::unique_ptr<FileOps> files = real_files(dir, make);
  if (!failpoints_.armed("save.", -1)) return files;
  FileOps& real = *files;
  const auto both = std::make_shared<Watched>(
      Watched{std::move(files), WatchedFiles(real, [this](const char* kind, int64_t) {
                failpoints_.pass("save.change");
                failpoints_.pass(std::string("save.") + kind);
              })});
  return {both, &both->watched};
}

void Session::begin_checkpoints() {
  const bool own = !output_.has_value() || output_->resumes_from_memory() ||
                   !output_->resumed().has_value() || output_->resumed()->same_place;
  if (save_id_.run.empty() || !own) save_id_ = {random_token(), 1, ""};
  checkpoints_.emplace(
      spec_, job_.step, executor_, control_,
      Checkpoints::Listener{.note = [this](const std::string& text) { output_->note(text); },
                            .begin = [this](int64_t step) { begin_save(step); },
                            .snapshot = [this](int64_t step) { begin_snapshot(step); },
                            .news = [this](const SaveNews& news) { tell_save(news); },
                            .wait = [this] { keep_saving(); }},
      [this](const std::string& dir, bool make) { return open_files(dir, make); },
      snapshots_.has_value() ? &*snapshots_ : nullptr);
  checkpoints_->begin(checkpoint_dir(spec_, folder()), save_id_, before_ > 0 && own);
}

// What a run needs beside its tensors is a function of these: data, rates and dropout are
// functions of seed and step.
nlohmann::json Session::state_of(int64_t step) const {
  return {{"identity", identity_of_run(spec_)},   {"samples", step * spec_.train.global_batch},
          {"samples_hash", samples_hash_},        {"loss", final_loss_},
          {"loss_scale", scaler_.state()},        {"spike_guard", guard_.state()},
          {"mesh", to_json(spec_).at("parallel")}};
}

void Session::begin_save(int64_t step) {
  if (checkpoints_->waits()) state_.saving = true;
  begin_snapshot(step);
  failpoints_.pass("save.stage", step);
}

void Session::begin_snapshot(int64_t step) {
  // What is kept must be right: it is what a run goes on from that has found an error.
  if (options_.compare_every > 0) compare_replicas(step);
  enter(RunSection::kSave, step);
  samples_hash_ = samples_.total(control_);
}

void Session::tell_save(const SaveNews& news) {
  const bool saved = news.kind == SaveNews::Kind::kSaved;
  if (saved) state_.checkpoint_step = news.step;
  if (!output_.has_value()) return;
  const char* event = saved                                   ? "save"
                      : news.kind == SaveNews::Kind::kSkipped ? "save skipped"
                                                              : "save failed";
  nlohmann::ordered_json line = {{"event", event}, {"step", news.step}, {"rank", world_.rank()}};
  if (news.kind != SaveNews::Kind::kSkipped) line["seconds"] = news.seconds;
  if (!saved) line["reason"] = news.reason;
  output_->event(line);
}

// A disk that is waited for is at work: whoever waits for the run knows that from the time.
void Session::keep_saving() {
  state_.saving_us = static_cast<int64_t>(saving_timer_.seconds() * 1e6);
  tell_state();
}

void Session::save_if_due(int64_t step) {
  if (!checkpoints_.has_value()) return;
  saving_timer_ = HostTimer();
  checkpoints_->after_step(step, [&] { return state_of(step); });
  state_.saving = false;
  tell_state();
}

// The last save, and one that is still under way.
void Session::end_checkpoints() {
  if (!checkpoints_.has_value()) return;
  state_.saving = true;
  saving_timer_ = HostTimer();
  enter(RunSection::kSave, steps_done_);
  checkpoints_->at_end(steps_done_, [this] { return state_of(steps_done_); });
  state_.saving = false;
  tell_state();
}

void Session::train() {
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

bool Session::ends_early() {
  if (time_is_up()) return true;
  stop_signal_ = static_cast<int>(largest_of_ranks(control_, wants_to_stop()));
  return stop_signal_ != 0;
}

int Session::wants_to_stop() const {
  const int signal = options_.should_stop ? options_.should_stop() : 0;
  return signal == 0 && world_.stop_requested() ? SIGTERM : signal;
}

// Rank 0's clock decides for all.
bool Session::time_is_up() {
  if (options_.max_seconds <= 0) return false;
  const bool reached = world_.rank() == 0 && timer_.seconds() >= options_.max_seconds;
  out_of_time_ = largest_of_ranks(control_, reached ? 1 : 0) != 0;
  return out_of_time_;
}

// All ranks save; empty, or why the weights are not in the run directory. Never without a step:
// weights that nobody trained must not take the place of others.
std::string Session::save() {
  TESSERA_CHECK(steps_done_ > 0, "weights without a step");
  state_.saving = true;
  tell_state();
  const HostTimer timer;
  const auto on_growth = [&] {
    state_.saving_us = static_cast<int64_t>(timer.seconds() * 1e6);
    tell_state();
  };
  const std::string failure =
      save_or_rescue({.path = folder() + "/model.safetensors",
                      .make_room = [this] { return output_->keep_directory(); },
                      .on_growth = on_growth,
                      .rescue_dir = options_.rescue_dir,
                      .step = steps_done_},
                     job_.step, executor_, control_);
  state_.saving = false;
  state_.saved_step = failure.empty() ? steps_done_ : -1;
  tell_state();
  if (failure.empty() && output_.has_value()) output_->describe_weights();
  return failure;
}

nlohmann::ordered_json Session::measure() {
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
void Session::finish(const TrainSummary& summary) {
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

TrainSummary Session::run() {
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

}  // namespace

TrainSummary run_session(const TrainOptions& options, const TrainJob& job, CommWorld& world,
                         Communicator& control) {
  return Session(options, job, world, control).run();
}

}  // namespace tessera

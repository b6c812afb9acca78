#include "serve/replicas/routing_generator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What an answer is taken to need, where it may be longer: few are as long as they may be.
constexpr int64_t kExpectedAnswer = 256;
// A replica that has not come round for longer is not sent anything while others do.
constexpr milliseconds kSilent{5'000};

// Tells the replica's load of what it has computed.
class CountingListener final : public GenerationListener {
 public:
  CountingListener(std::shared_ptr<GenerationListener> inner,
                   std::shared_ptr<std::atomic<int64_t>> load, int64_t prompt, int64_t answer)
      : inner_(std::move(inner)), load_(std::move(load)), prompt_(prompt), answer_(answer) {
    *load_ += prompt_ + answer_;
  }
  ~CountingListener() override { done(); }  // also where nobody has taken it
  CountingListener(const CountingListener&) = delete;
  CountingListener& operator=(const CountingListener&) = delete;

  void on_prompt(const std::vector<SampledToken>& logprobs) override {
    inner_->on_prompt(logprobs);
  }
  void on_token(int choice, const SampledToken& token) override {
    *load_ -= std::exchange(prompt_, 0);
    if (answer_ > 0) {
      --answer_;
      --*load_;
    }
    inner_->on_token(choice, token);
  }
  void on_finish(int choice, FinishReason reason, const std::string& why) override {
    inner_->on_finish(choice, reason, why);
  }
  void on_end(const GenerationUsage& usage) override {
    done();
    inner_->on_end(usage);
  }

 private:
  void done() { *load_ -= std::exchange(prompt_, 0) + std::exchange(answer_, 0); }

  std::shared_ptr<GenerationListener> inner_;
  std::shared_ptr<std::atomic<int64_t>> load_;
  int64_t prompt_;
  int64_t answer_;
};

// Names every field, so that one that is added does not compile before it is copied too.
GenerationRequest copy_of(const GenerationRequest& request) {
  const auto& [prompt, max_tokens, min_tokens, choices, sampling, end_tokens, grammar,
               prompt_logprobs, priority, salt, deadline] = request;
  return {.prompt = prompt,
          .max_tokens = max_tokens,
          .min_tokens = min_tokens,
          .choices = choices,
          .sampling = sampling,
          .end_tokens = end_tokens,
          .grammar = grammar ? grammar->clone() : nullptr,
          .prompt_logprobs = prompt_logprobs,
          .priority = priority,
          .salt = salt,
          .deadline = deadline};
}

// Another replica may take what this one does not.
bool is_of_one_alone(Refused refused) {
  return refused == Refused::kQueueFull || refused == Refused::kDead ||
         refused == Refused::kDraining;
}

void add_to(GeneratorStats& sum, const GeneratorStats& one) {
  sum.running += one.running;
  sum.waiting += one.waiting;
  sum.pages += one.pages;
  sum.pages_used += one.pages_used;
  sum.pages_cached += one.pages_cached;
  sum.prompt_tokens_total += one.prompt_tokens_total;
  sum.answer_tokens_total += one.answer_tokens_total;
  sum.prefix_hit_tokens_total += one.prefix_hit_tokens_total;
  sum.prefix_asked_tokens_total += one.prefix_asked_tokens_total;
  sum.recomputed_tokens_total += one.recomputed_tokens_total;
  sum.preemptions_total += one.preemptions_total;
  sum.frames_total += one.frames_total;
  sum.rank_progress += one.rank_progress;
  sum.finished_total += one.finished_total;
  sum.cancelled_total += one.cancelled_total;
  sum.failed_total += one.failed_total;
}

}  // namespace

RoutingGenerator::RoutingGenerator(std::vector<std::unique_ptr<Generator>> replicas,
                                   int64_t page_size)
    : table_({.replicas = static_cast<int>(replicas.size()), .block_tokens = page_size}),
      left_out_(replicas.size(), false) {
  for (std::unique_ptr<Generator>& one : replicas) {
    replicas_.push_back({std::move(one), std::make_shared<std::atomic<int64_t>>(0)});
  }
}

RoutingGenerator::~RoutingGenerator() = default;

int64_t RoutingGenerator::vocab() const { return replicas_.front().generator->vocab(); }

int64_t RoutingGenerator::max_context() const {
  int64_t least = replicas_.front().generator->max_context();
  for (const Replica& one : replicas_) least = std::min(least, one.generator->max_context());
  return least;
}

// The best first. Those that are silent come last: they may be busy with a long step.
std::vector<int> RoutingGenerator::candidates(const GenerationRequest& request,
                                              std::vector<int64_t>& known) {
  std::vector<ReplicaSight> sights(replicas_.size());
  std::vector<ReplicaSight> silent(replicas_.size());
  const std::scoped_lock lock(mutex_);
  known = table_.known(request.prompt, request.salt);
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const Generator& one = *replicas_[i].generator;
    const bool failed = !one.failure().empty();
    const bool quiet = Clock::now() - kSilent > one.last_seen_alive();
    if (failed || quiet) {
      // Whatever it had cached, it begins anew; one that was only slow loses a little time.
      if (!left_out_[i]) table_.forget(static_cast<int>(i));
      left_out_[i] = true;
    } else {
      left_out_[i] = false;
    }
    const ReplicaSight sight{
        .answers = true, .known_tokens = known[i], .load_tokens = *replicas_[i].load};
    if (!failed) (quiet ? silent : sights)[i] = sight;
  }
  std::vector<int> order = order_of_replicas(sights);
  const std::vector<int> last = order_of_replicas(silent);
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

Submission RoutingGenerator::submit(GenerationRequest request,
                                    std::shared_ptr<GenerationListener> listener) {
  if (draining_) return {.refused = Refused::kDraining, .why = "the server is shutting down"};
  std::vector<int64_t> known;
  const std::vector<int> order = candidates(request, known);
  Submission first{.refused = Refused::kDead, .why = failure()};
  if (first.why.empty()) first.why = "no replica answers now";
  const auto size = static_cast<int64_t>(request.prompt.size());
  const int64_t answer = std::min(request.max_tokens, kExpectedAnswer) * request.choices;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto replica = static_cast<size_t>(order[i]);
    const bool last = i + 1 == order.size();
    auto counting = std::make_shared<CountingListener>(listener, replicas_[replica].load,
                                                       size - known[replica], answer);
    GenerationRequest mine = last ? GenerationRequest() : copy_of(request);
    if (last) std::swap(mine, request);
    const std::vector<int32_t> prompt = mine.prompt;
    const std::string salt = mine.salt;
    Submission answer_of_one =
        replicas_[replica].generator->submit(std::move(mine), std::move(counting));
    if (answer_of_one.refused == Refused::kNo) {
      const std::scoped_lock lock(mutex_);
      table_.sent(order[i], prompt, salt);
      answer_of_one.id = answer_of_one.id * replicas_.size() + replica;
      return answer_of_one;
    }
    if (!is_of_one_alone(answer_of_one.refused)) return answer_of_one;
    if (i == 0) first = std::move(answer_of_one);
  }
  return first;
}

void RoutingGenerator::cancel(GenerationId id) {
  replicas_[id % replicas_.size()].generator->cancel(id / replicas_.size());
}

void RoutingGenerator::cancel_choice(GenerationId id, int choice) {
  replicas_[id % replicas_.size()].generator->cancel_choice(id / replicas_.size(), choice);
}

GeneratorStats RoutingGenerator::stats() const {
  GeneratorStats sum;
  for (const Replica& one : replicas_) add_to(sum, one.generator->stats());
  return sum;
}

std::string RoutingGenerator::failure() const {
  std::string all;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const std::string why = replicas_[i].generator->failure();
    if (why.empty()) return "";
    all += fmt::format("{}replica {}: {}", all.empty() ? "" : "; ", i, why);
  }
  return all;
}

Clock::time_point RoutingGenerator::last_seen_alive() const {
  Clock::time_point latest = Clock::time_point::min();
  for (const Replica& one : replicas_) {
    if (one.generator->failure().empty()) {
      latest = std::max(latest, one.generator->last_seen_alive());
    }
  }
  return latest;
}

bool RoutingGenerator::drain(milliseconds longest) {
  draining_ = true;
  const Clock::time_point until = Clock::now() + longest;
  bool all = true;
  for (const Replica& one : replicas_) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    all = one.generator->drain(std::max(left, milliseconds(0))) && all;
  }
  return all;
}

int RoutingGenerator::answering() const {
  return static_cast<int>(std::count_if(replicas_.begin(), replicas_.end(), [](const Replica& one) {
    return one.generator->failure().empty() &&
           one.generator->last_seen_alive() + kSilent > Clock::now();
  }));
}

std::vector<int64_t> RoutingGenerator::loads() const {
  std::vector<int64_t> loads;
  for (const Replica& one : replicas_) loads.push_back(*one.load);
  return loads;
}

}  // namespace tessera::serve

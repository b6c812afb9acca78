// Several replicas as one Generator: `--mesh dp=2,tp=2`. Each has the whole model and answers on
// its own; a request goes to the one that was sent the beginning of its prompt before, unless that
// one has much more to do than the others (routing_table.h). One that does not answer is left out
// until it does again; requests under way there end as it says.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "serve/generator.h"
#include "serve/replicas/routing_table.h"

namespace tessera::serve {

class RoutingGenerator final : public Generator {
 public:
  // All of one model. Throws ConfigError where there is none, or too many. `page_size`: tokens, of
  // the replicas' caches.
  RoutingGenerator(std::vector<std::unique_ptr<Generator>> replicas, int64_t page_size);
  ~RoutingGenerator() override;

  [[nodiscard]] int64_t vocab() const override;
  [[nodiscard]] int64_t max_context() const override;  // the least
  Submission submit(GenerationRequest request,
                    std::shared_ptr<GenerationListener> listener) override;
  void cancel(GenerationId id) override;
  void cancel_choice(GenerationId id, int choice) override;
  [[nodiscard]] GeneratorStats stats() const override;  // of all together
  [[nodiscard]] std::string failure() const override;   // empty as long as one may answer
  [[nodiscard]] std::chrono::steady_clock::time_point last_seen_alive() const override;
  bool drain(std::chrono::milliseconds longest) override;

  // How many answer now, and how many tokens each has still to compute; for metrics and tests.
  [[nodiscard]] int answering() const;
  [[nodiscard]] std::vector<int64_t> loads() const;

 private:
  struct Replica {
    std::unique_ptr<Generator> generator;
    std::shared_ptr<std::atomic<int64_t>> load;  // tokens; listeners may outlive this object
  };

  [[nodiscard]] std::vector<int> candidates(const GenerationRequest& request,
                                            std::vector<int64_t>& known);

  std::vector<Replica> replicas_;
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;
  RoutingTable table_;          // guarded by mutex_
  std::vector<bool> left_out_;  // guarded by mutex_: did not answer when last asked
};

}  // namespace tessera::serve

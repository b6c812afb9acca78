// Which tokens of which texts the next frame computes, and in which pages. A pure function of what
// it was told: no threads, no clocks. One frame has, in this order,
//   - the next token of every text of one pipeline group that is ready for it: as many groups as
//     stages, dealt evenly; one after the other has its frame, so that all can be under way at once
//   - chunks of prompts that have begun, the first to begin first
//   - new prompts by (priority, arrival) and, as such, texts that were preempted before them, as
//     long as the budget, slots and pages last. One that does not fit yet is overtaken once at
//     most.
//
// Pages of a prompt are taken when it begins, all at once; those of an answer one by one. Where
// none is left for an answer, nobody begins, and the text that would lose the fewest tokens by it
// is preempted, but none twice while others were spared. What a page holds is known when its frame
// is planned, so the next frame can already share it. Pages of a text that ends are free at once: a
// frame that is under way runs before the frame that uses them next.
//
// Answers to one request share the pages of their prompt; its last page, where it is not full, is
// copied by each that writes to it while another has it too.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/batch/answer_lengths.h"
#include "serve/batch/batch_options.h"
#include "serve/batch/page_cache.h"
#include "serve/batch/sequence.h"

namespace tessera::serve {

// What a row of a planned frame is for.
struct RowOwner {
  static constexpr int64_t kAnswer = -1;
  GenerationId id = 0;
  int choice = 0;
  int64_t prompt_token = kAnswer;  // else it is of this token of the prompt, to which it is before
};

struct PlannedFrame {
  Frame frame;                         // of its rows' samplings only choice and position are said
  std::vector<RowOwner> owners;        // of its rows
  std::vector<GenerationId> requests;  // of its sequences
};

struct BatchStats {
  int64_t running = 0;  // choices
  int64_t waiting = 0;  // requests and preempted texts
  int64_t pages = 0, pages_used = 0, pages_cached = 0;
  // Of prompts, when they first begin; what comes back after preemption counts in neither.
  uint64_t prefix_hit_tokens = 0, prefix_asked_tokens = 0;
  uint64_t recomputed_tokens = 0, preemptions = 0;
};

class Scheduler {
 public:
  Scheduler(const ServeShape& shape, const BatchOptions& options);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // why_too_long() of it is empty, and its id is new.
  void add(BatchRequest request);
  // The token that the last planned row of this answer gave. False where it has ended meanwhile.
  bool append(GenerationId id, int choice, int32_t token);
  // It has ended, for whatever reason; nothing happens where it had ended before.
  void end(GenerationId id, int choice);
  void end(GenerationId id);
  // Takes its pages, as where none is left for another. It comes back when there is room.
  void preempt(GenerationId id, int choice);
  // Nobody shall find what this request has computed. Before it ends.
  void forget_pages(GenerationId id);

  // The next frame into `planned`; false where there is nothing to do before something is told.
  bool plan(PlannedFrame& planned);

  using Time = std::chrono::steady_clock::time_point;
  [[nodiscard]] std::vector<GenerationId> expired(Time now) const;
  [[nodiscard]] std::optional<Time> next_deadline() const;

  // Tokens of its prompt that were found when it began.
  [[nodiscard]] int64_t cached_tokens(GenerationId id) const;
  // Prompt and answer; empty where it has ended.
  [[nodiscard]] std::span<const int32_t> text(GenerationId id, int choice) const;
  [[nodiscard]] bool has_begun(GenerationId id) const;
  [[nodiscard]] bool is_idle() const { return requests_.empty(); }
  [[nodiscard]] BatchStats stats() const;
  [[nodiscard]] std::vector<int64_t> group_sizes() const;  // of the pipeline, in ascending order
  [[nodiscard]] int64_t times_preempted(GenerationId id, int choice) const;

  // Throws InternalError unless used + free = pages, every count is right, and everything is in the
  // lists where it should be.
  void check() const;

 private:
  struct WaitsBefore {
    bool operator()(const Sequence* a, const Sequence* b) const;
  };
  struct Room {  // what is left of a frame
    int64_t tokens = 0, sequences = 0, rows = 0;
  };
  struct Fit {  // of a prompt that waits
    int64_t hit_pages = 0;
    int64_t free_hits = 0;  // of them, those that nobody holds
    int64_t new_pages = 0;
  };

  void check_sequence(const Sequence& sequence) const;
  Sequence* find(GenerationId id, int choice) const;
  void end_sequence(Sequence& sequence, int choice);
  void release_pages(Sequence& sequence);
  void leave_lists(Sequence& sequence);
  void wait(Sequence& sequence);

  // scheduler_answers.cc
  void plan_answers(PlannedFrame& planned, Room& room);
  int choose_group();
  void even_out(int group);
  void enter_smallest_group(Sequence& sequence);
  int64_t pages_wanted(const std::vector<Sequence*>& group) const;
  bool shares_last_page(const Sequence& sequence) const;
  void preempt_for(const std::vector<Sequence*>& group);
  void preempt(Sequence& victim);
  Sequence* cheapest_victim() const;
  int64_t private_tokens(const Sequence& sequence) const;
  void give_page(Sequence& sequence, Frame& frame);

  // scheduler_prompts.cc
  void plan_prompts(PlannedFrame& planned, Room& room);
  void admit_waiting(PlannedFrame& planned, Room& room);
  bool has_slots(const Sequence& sequence) const;
  Fit fit(Sequence& sequence);
  bool has_pages(const Sequence& sequence, const Fit& fit) const;
  int64_t guaranteed_pages(const Sequence& sequence) const;
  int64_t expected_growth(const Sequence& sequence, int64_t pages) const;
  void begin(Sequence& sequence, const Fit& fit);
  bool plan_chunk(Sequence& sequence, PlannedFrame& planned, Room& room);
  void add_rows(Sequence& sequence, int64_t first, int64_t count, PlannedFrame& planned);
  void fork(Sequence& sequence);
  void extend_keys(Sequence& sequence, int64_t pages) const;
  void add_tokens(Sequence& sequence, int64_t count, PlannedFrame& planned);
  void publish_full_pages(Sequence& sequence);

  template <typename Visit>
  void for_each_running(const Visit& visit) const {
    for (Sequence* sequence : prompts_) visit(*sequence);
    for (const auto& group : groups_) {
      for (Sequence* sequence : group) visit(*sequence);
    }
  }

  ServeShape shape_;
  BatchOptions options_;
  int64_t slots_;
  PageCache cache_;
  AnswerLengths lengths_;

  std::unordered_map<GenerationId, std::unique_ptr<RequestState>> requests_;
  std::set<Sequence*, WaitsBefore> waiting_;
  std::set<std::pair<Time, GenerationId>> deadlines_;
  std::vector<Sequence*> prompts_;              // Phase::kPrompt, in the order in which they began
  std::vector<std::vector<Sequence*>> groups_;  // Phase::kAnswer
  size_t next_group_ = 0;
  int64_t num_parked_ = 0;
  bool has_preempted_ = false;  // for the frame that is being planned
  bool has_forgotten_ = false;
  std::vector<Sequence*> in_frame_;

  uint64_t next_frame_ = 1;  // 0 is what ranks warm up with
  uint64_t next_arrival_ = 0;
  BatchStats totals_;
};

}  // namespace tessera::serve

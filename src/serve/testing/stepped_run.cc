#include "serve/testing/stepped_run.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/philox.h"
#include "serve/testing/text_feeder.h"

namespace tessera::serve::testing {

SteppedRun::SteppedRun(LocalFrameRunner& runner, const BatchOptions& options)
    : runner_(runner), scheduler_(runner.shape(), options) {}

void SteppedRun::add(const BatchRequest& request) {
  for (int choice = 0; choice < request.choices; ++choice) {
    answers_[{request.id, choice}] = {
        request.prompt, std::ssize(request.prompt), request.max_tokens, false, {}};
  }
  scheduler_.add(request);
}

std::vector<std::pair<GenerationId, int>> SteppedRun::answers() const {
  std::vector<std::pair<GenerationId, int>> all;
  for (const auto& [key, answer] : answers_) {
    if (!answer.ended && std::ssize(answer.text) < answer.prompt + answer.most) all.push_back(key);
  }
  return all;
}

void SteppedRun::end(GenerationId id, int choice) {
  answers_.at({id, choice}).ended = true;
  scheduler_.end(id, choice);
}

void SteppedRun::run() {
  const auto greedy = std::make_shared<const Sampling>(Sampling{.temperature = 0});
  PlannedFrame planned;
  while (!scheduler_.is_idle() || !under_way_.empty()) {
    const bool room = std::ssize(under_way_) < runner_.shape().stages;
    bool begun = room && !scheduler_.is_idle() && scheduler_.plan(planned);
    if (!begun && under_way_.empty() && !scheduler_.is_idle()) begun = scheduler_.plan(planned);
    if (!begun) {
      TESSERA_CHECK(!under_way_.empty(), "no frame can be made of what is left");
      take();
      continue;
    }
    for (FrameRow& row : planned.frame.rows) row.sampling.how = greedy;
    copies_ += std::ssize(planned.frame.copies);
    runner_.start(planned.frame);
    under_way_.push_back({frames_, planned.owners});
    if (on_frame && frames_ % 2 == 0) on_frame(frames_);
    ++frames_;
    scheduler_.check();
  }
}

void SteppedRun::take() {
  const FrameResult result = runner_.finish();
  const auto [frame, owners] = std::move(under_way_.front());
  under_way_.pop_front();
  TESSERA_CHECK(runner_.logits().size() == owners.size(), "{} rows of {}", runner_.logits().size(),
                owners.size());
  for (size_t row = 0; row < owners.size(); ++row) {
    const RowOwner& owner = owners[row];
    Answer& answer = answers_.at({owner.id, owner.choice});
    if (answer.ended) continue;
    const std::vector<double>& logits = runner_.logits()[row];
    if (owner.prompt_token != RowOwner::kAnswer) {
      answer.at[owner.prompt_token - 1] = logits;
      continue;
    }
    const auto position = std::ssize(answer.text);
    answer.at[position - 1] = logits;
    const double share = uniform_at(5, owner.id * 16 + static_cast<uint64_t>(owner.choice),
                                    static_cast<uint64_t>(position));
    const auto token = static_cast<int32_t>(share * static_cast<double>(runner_.shape().vocab));
    answer.text.push_back(token);
    TESSERA_CHECK(scheduler_.append(owner.id, owner.choice, token), "answer {} of {} has ended",
                  owner.choice, owner.id);
    if (position + 1 == answer.prompt + answer.most) scheduler_.end(owner.id, owner.choice);
  }
  if (on_frame && frame % 2 == 1) on_frame(frame);
}

int64_t SteppedRun::tokens(GenerationId id, int choice) const {
  return std::ssize(answers_.at({id, choice}).text);
}

int64_t SteppedRun::rows() const {
  int64_t rows = 0;
  for (const auto& [key, answer] : answers_) rows += std::ssize(answer.at);
  return rows;
}

double SteppedRun::difference_from(const ServedModel& model) const {
  std::vector<Text> texts;
  for (const auto& [key, answer] : answers_) texts.push_back(answer.text);
  const std::vector<Rows> reference = reference_logits(model, texts);
  double largest = 0;
  size_t i = 0;
  for (const auto& [key, answer] : answers_) {
    const Rows& rows = reference[i++];
    Rows expected, served;
    for (const auto& [position, logits] : answer.at) {
      expected.push_back(rows[static_cast<size_t>(position)]);
      served.push_back(logits);
    }
    largest = std::max(largest, difference({expected}, {served}));
    int64_t answered = 0;
    for (const auto& [position, logits] : answer.at) answered += position >= answer.prompt - 1;
    if (!answer.ended && answered < answer.most) return std::numeric_limits<double>::infinity();
  }
  return largest;
}

}  // namespace tessera::serve::testing

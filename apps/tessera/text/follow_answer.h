// One answer as a command takes it: part by part on its own thread, until it ends or nobody wants
// it any more.
#pragma once

#include <functional>
#include <memory>

#include "serve/api/answer.h"
#include "serve/start/start_model.h"

namespace tessera {

struct AnswerEnd {
  serve::FinishReason reason = serve::FinishReason::kStop;
  serve::GenerationUsage usage;
};

// Asks for one answer. `part` is called with all of it, on this thread; `unwanted` is asked many
// times a second, and where it says so the answer ends with kCancelled. Throws what
// failure_to_answer() makes of a refusal.
AnswerEnd follow_answer(serve::AnswerDesk& desk, const serve::StartedModel& model,
                        const std::shared_ptr<const serve::Asked>& asked,
                        const std::function<void(const serve::TextPart&)>& part,
                        const std::function<bool()>& unwanted);

// What a command ends with: the exit code of a rank that was lost, kDiverged where the model says
// nothing that is finite, ConfigError for what cannot be asked.
Error failure_to_answer(const serve::ApiError& error, const serve::StartedModel& model);

}  // namespace tessera

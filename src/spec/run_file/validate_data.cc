#include "spec/run_file/validate_data.h"

#include "base/error.h"
#include "spec/run_file/asynchronous.h"

namespace tessera {
namespace {

void check_chats(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  require_config(data.chats.empty() || data.path.empty(),
                 "data.chats and data.path both say what to train on; leave one of them out");
  require_config(data.chats.empty() || !data.is_sets(),
                 "data.chats and sets of tokens (data.train, data.mix) both say what to train on; "
                 "leave one of them out");
  require_config(data.chats.empty() || !data.tokenizer.empty() || !spec.model.hf.empty(),
                 "data.chats needs a tokenizer and a chat template: start from a folder that has "
                 "them (model.hf), or name one as data.tokenizer");
  require_config(data.tokenizer.empty() || !data.chats.empty() || data.is_sets(),
                 "data.tokenizer is for sets of tokens (data.train, data.mix) and data.chats, but "
                 "the run reads bytes: leave it out, or prepare the text");
}

void check_eval(const RunSpec& spec) {
  const EvalSpec& eval = spec.eval;
  require_config(eval.every > 0 || eval.batches == 0,
                 "eval.batches = {} but eval.every = 0: nothing is evaluated; give every",
                 eval.batches);
  if (eval.every == 0) return;
  const bool own_text = !spec.data.path.empty() || !spec.data.chats.empty() || spec.data.is_sets();
  require_config(!own_text || !spec.data.valid.empty(),
                 "eval.every = {} needs data that is not trained on; name it as data.valid",
                 eval.every);
  require_config(
      !is_asynchronous(spec.parallel),
      "eval.every = {}: with schedule = \"{}\" stages update their weights within a "
      "step, so that no loss is that of one model; use every = 0, or schedule = \"1f1b\"",
      eval.every, spec.parallel.schedule.text());
  const bool drops = spec.model.dropout > 0 || spec.model.attention_dropout > 0;
  require_config(!drops || spec.train.device == TrainDevice::kCpu,
                 "eval.every = {}: on a GPU dropout cannot be left out of an evaluation yet; use "
                 "model.dropout = 0 and attention_dropout = 0, or device = \"cpu\"",
                 eval.every);
}

void check_checkpoint(const RunSpec& spec) {
  const CheckpointSpec& checkpoint = spec.checkpoint;
  const char* const without = checkpoint.keep_every != 0     ? "keep_every"
                              : !checkpoint.dir.empty()      ? "dir"
                              : checkpoint.memory_every != 0 ? "memory_every"
                              : checkpoint.memory_gib != 0   ? "memory_gib"
                                                             : nullptr;
  require_config(
      checkpoint.on() || without == nullptr,
      "checkpoint.{} is set, but neither every nor every_minutes: nothing is saved; give one",
      without == nullptr ? "" : without);
}

}  // namespace

void check_data(const RunSpec& spec) {
  check_chats(spec);
  check_eval(spec);
  check_checkpoint(spec);
}

}  // namespace tessera

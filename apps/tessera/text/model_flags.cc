#include "text/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "spec/run_file/run_file.h"

namespace tessera {
namespace {

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw ConfigError(fmt::format("--dtype is '{}': use f32, bf16 or f64", name));
}

}  // namespace

void add_model_flags(CLI::App& app, ModelFlags& flags, bool chats) {
  add_text(app, "--mesh", flags.mesh, "SPEC",
           "ranks that share the model, such as tp=2,pp=2 (default: one); dp=2 is two of it");
  add_choice(app, "--dtype", flags.dtype, "f32|bf16|f64",
             "of weights, activations and cache (default f32)");
  add_whole(app, "--threads", flags.threads, 1, "of each rank (default: cores / ranks)");
  add_length(app, "--max-context", flags.max_context,
             "longest text, prompt and answer, in tokens (default: what the model was made for)");
  add_text(app, "--tokenizer", flags.tokenizer, "DIR", "use this tokenizer (default: the model's)");
  if (chats) {
    add_text(app, "--chat-template", flags.chat_template, "FILE",
             "write conversations with this template (default: the model's)");
  }
}

serve::StartOptions start_options(const ModelFlags& flags) {
  serve::StartOptions options;
  options.ranks.model = flags.model;
  options.ranks.dtype = dtype_of(flags.dtype);
  options.ranks.threads = flags.threads;
  options.ranks.max_context = flags.max_context;
  options.tokenizer = flags.tokenizer;
  options.chat_template = flags.chat_template;
  if (flags.mesh.empty()) return options;
  const ParallelSpec mesh = parse_mesh(flags.mesh, {});
  require_config(mesh.fsdp == 1 && mesh.cp == 1,
                 "--mesh {}: a model answers on tp (matrices and heads), pp (layers), ep (experts) "
                 "and dp (copies of it); leave out {}",
                 flags.mesh, mesh.cp == 1 ? "fsdp" : "cp");
  options.ranks.tp = mesh.tp;
  options.ranks.pp = mesh.pp;
  options.ranks.ep = mesh.ep;
  options.replicas = static_cast<int>(mesh.dp);
  return options;
}

serve::Speech speech_of(const ModelFlags& flags, const ModelFolder& folder) {
  const bool lost = !folder.tokenizer_hash.empty() && flags.tokenizer.empty() &&
                    find_beside(folder, "tokenizer.json").empty();
  require_config(!lost,
                 "'{}' was trained with a tokenizer (SHA-256 {}), and lies in no run directory "
                 "that has it: copy the checkpoint to RUN/checkpoints, or name it with --tokenizer",
                 flags.model, folder.tokenizer_hash);
  return serve::speech_of(folder, flags.tokenizer, flags.chat_template);
}

std::unique_ptr<serve::StartedModel> start_unless(const std::function<bool()>& unwanted,
                                                  serve::StartOptions options) {
  options.cancelled = unwanted;
  try {
    auto model = serve::start_model(std::move(options));
    if (!unwanted()) return model;
  } catch (const Error&) {
    if (!unwanted()) throw;
  }
  return nullptr;
}

int64_t checked_context(const ModelFlags& flags, const serve::ContextLimits& limits) {
  require_config(flags.max_context <= limits.most,
                 "--max-context is {}, but '{}' has positions for {} tokens: use {} or less",
                 flags.max_context, flags.model, limits.most, limits.most);
  return flags.max_context;
}

void warn_beyond(int64_t context, const ModelFlags& flags, const serve::ContextLimits& limits,
                 Console& console) {
  if (context <= limits.made_for || console.quiet) return;
  console.err << fitted_err(
      console,
      fmt::format("tessera: warning: texts of {} tokens, but '{}' was made for {}: what it says of "
                  "longer ones gets worse\n",
                  with_thousands(context), flags.model, with_thousands(limits.made_for)));
}

int64_t context_of(const ModelFlags& flags, const serve::ContextLimits& limits, Console& console) {
  if (flags.max_context == 0) return limits.made_for;
  const int64_t context = checked_context(flags, limits);
  warn_beyond(context, flags, limits, console);
  return context;
}

}  // namespace tessera

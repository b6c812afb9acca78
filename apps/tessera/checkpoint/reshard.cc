#include "checkpoint/store/reshard.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint_command.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output_flags.h"
#include "cli/read_text.h"
#include "cli/run_source_flags.h"
#include "compile/step.h"
#include "spec/run_file/run_file.h"
#include "train/save/resume.h"
#include "train/state/state_layout.h"

namespace tessera {

Command add_checkpoint_reshard(CLI::App& checkpoint) {
  CLI::App* app =
      add_command(checkpoint, "reshard",
                  {"Write a checkpoint as another mesh would have saved it.",
                   "tessera checkpoint reshard runs/demo RUN.toml --mesh dp=4 --out resharded",
                   "tessera train RUN.toml --mesh dp=4 --resume resharded"});
  auto options = std::make_shared<ReshardOptions>();
  must_be_given(add_text(*app, "path", options->path, "PATH",
                         "a run directory, a folder of checkpoints, or one of them"));
  add_file_and_set(*app, options->source);
  add_mesh(*app, options->source);
  must_be_given(add_output_folder(*app, "--out", options->out,
                                  "the folder that gets the new checkpoint, step-XXXXXXXX"));
  add_switch(*app, "--allow-unchecked", options->allow_unchecked,
             "also read shards whose checksums are missing");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_checkpoint_reshard(*options, console); }};
}

int run_checkpoint_reshard(const ReshardOptions& options, Console& console) {
  const RunSpec spec = options.source.load(read_text);
  // "auto" is a folder like any other here.
  const std::string path = options.path == "auto" ? "./auto" : options.path;
  const auto say = [&](const std::string& note) {
    console.err << fitted_err(console, "tessera: " + note) << '\n';
  };
  const std::optional<ResumePoint> from =
      find_resume_point(path, options.out, spec, say, {.allow_unchecked = options.allow_unchecked});
  const StepGraph step = build_step(spec, StepKind::kTraining);
  const StateLayout layout = lay_out_state(step);
  const SaveId& saved = from->checkpoint.manifest.head.id;
  nlohmann::json state = from->checkpoint.state;
  state["mesh"] = to_json(spec).at("parallel");
  const std::unique_ptr<FileOps> source = real_files(from->dir);
  const std::unique_ptr<FileOps> target = real_files(options.out, /*make=*/true);
  const ReadFigures figures =
      reshard({*source, from->checkpoint}, *target, layout.tensors, held_boxes(layout),
              {saved.run, saved.generation, "resharded"}, state);

  const int64_t ranks = std::ssize(layout.ranks);
  const std::string folder = options.out + "/" + from->checkpoint.folder;
  if (options.json) {
    const nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                         {"kind", "resharded_checkpoint"},
                                         {"folder", folder},
                                         {"step", from->step()},
                                         {"ranks", ranks},
                                         {"tensors", layout.tensors.size()},
                                         {"bytes", figures.needed_bytes},
                                         {"read_bytes", figures.read_bytes}};
    console.out << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                << '\n';
    return 0;
  }
  console.out << fitted(
      console,
      fmt::format("{}: {} in {}, {}\n", folder, count_of(std::ssize(layout.tensors), "tensor"),
                  count_of(ranks, "shard"), human_bytes(figures.needed_bytes)));
  return 0;
}

}  // namespace tessera

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "train/export_command.h"
#include "train/verify/export_hf.h"

namespace tessera {
namespace {

constexpr int64_t kMostShardBytes = 1'000'000'000'000;

}  // namespace

Command add_export_hf(CLI::App& root) {
  CLI::App* app =
      add_command(root, "export-hf",
                  {"Write a trained model as a folder that the programs of Hugging Face load.",
                   "tessera export-hf runs/demo demo-model", "tessera verify --hf demo-model"});
  auto options = std::make_shared<ExportCommandOptions>();
  must_be_given(add_text(*app, "run", options->source, "RUN",
                         "the directory of a run, a checkpoint, or a Hugging Face folder"));
  must_be_given(
      add_text(*app, "out", options->out, "OUT", "the folder to make, which must not exist"));
  add_bytes(*app, "--shard-size", options->shard_bytes, kMostShardBytes,
            "begin another file of weights after so many bytes (default 5GB)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_export_hf(*options, console); }};
}

int run_export_hf(const ExportCommandOptions& options, Console& console) {
  const ExportReport report =
      export_hf({.source = options.source, .out = options.out, .shard_bytes = options.shard_bytes});
  if (options.json) {
    const nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                         {"kind", "export"},
                                         {"folder", options.out},
                                         {"files", report.files},
                                         {"tensors", report.tensors},
                                         {"bytes", report.bytes},
                                         {"checked_logits", report.checked},
                                         {"largest_error", report.largest_error}};
    console.out << json.dump(2) << '\n';
    return 0;
  }
  console.out << fmt::format(
      "{}: {} with {}, in {}\n{} logits of the folder, loaded again, are those of {} (largest "
      "error {:.1e})\n",
      options.out, count_of(report.tensors, "tensor"), count_of(report.bytes, "byte"),
      fmt::join(report.files, ", "), with_thousands(report.checked), options.source,
      report.largest_error);
  return 0;
}

}  // namespace tessera

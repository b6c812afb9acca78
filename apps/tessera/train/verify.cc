#include "train/verify/verify.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "cli/run_source_flags.h"
#include "data/tokenizer_command.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/preflight/run_inputs.h"
#include "train/preflight/run_memory.h"
#include "train/verify/checkpoint_model.h"
#include "train/verify/compare_types.h"
#include "train/verify/hf_check.h"
#include "train/verify/model_folder.h"
#include "train/verify_command.h"

namespace tessera {
namespace {

DType parse_dtype(const std::string& name) {
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16}) {
    if (name_of(type) == name) return type;
  }
  throw ConfigError(fmt::format("--dtype is '{}': use f64, f32 or bf16", name));
}

// f64 shows the smallest difference; where nothing is compared f32 takes half the memory.
DType dtype_of(const VerifyCommandOptions& options, DType otherwise) {
  return options.dtype.empty() ? otherwise : parse_dtype(options.dtype);
}

RunSpec with_mesh(const VerifyCommandOptions& options, const std::string& mesh,
                  int64_t global_batch = 0) {
  RunSource source = options.source;
  if (global_batch > 0)
    source.overrides.push_back(fmt::format("train.global_batch={}", global_batch));
  source.mesh = mesh;
  RunSpec spec = source.load(read_text);
  if (options.dtype == "fp8" || options.dtype == "bf16") {
    compute_in(spec, options.dtype);
    return spec;
  }
  // The scales of 8 bits stay: on every mesh they round alike.
  spec.train.dtype = dtype_of(options, DType::kF64);
  spec.train.fp8.asked = false;
  return spec;
}

VerifyReport between_types(const VerifyCommandOptions& options) {
  require_config(!options.dtype.empty(),
                 "--against {} needs the type that it is compared with: give --dtype, as in "
                 "--dtype fp8 --against bf16",
                 options.against);
  require_config(options.hf.empty() && options.golden.empty(),
                 "--against compares two types of a run file; leave out --hf and --golden");
  require_config(options.meshes.size() <= 1, "--against takes one --mesh, got {}",
                 options.meshes.size());
  RunSource source = options.source;
  if (!options.meshes.empty()) source.mesh = options.meshes.front();
  TypesOptions types;
  types.mine = types.other = source.load(read_text);
  check_weights(types.mine);
  compute_in(types.mine, options.dtype);
  compute_in(types.other, options.against);
  for (const RunSpec* spec : {&types.mine, &types.other}) require_room_here(*spec);
  types.steps = options.steps;
  if (options.tolerance >= 0) types.tolerance = options.tolerance;
  return compare_types(types);
}

VerifyReport between_meshes(const VerifyCommandOptions& options) {
  const std::vector<std::string>& meshes = options.meshes;
  require_config(!meshes.empty() && meshes.size() <= 2,
                 "verify needs --mesh once (compared with one rank) or twice, got {}",
                 meshes.size());
  VerifyOptions verify;
  const std::string left = meshes.size() == 2 ? meshes[0] : "dp=1";
  verify.left = with_mesh(options, left);
  verify.right = with_mesh(options, meshes.back());
  check_weights(verify.left);
  // Without train.global_batch each mesh has a batch of its own: compare them on one that suits
  // both.
  const int64_t batch = std::lcm(verify.left.train.global_batch, verify.right.train.global_batch);
  if (verify.left.train.global_batch != verify.right.train.global_batch) {
    verify.left = with_mesh(options, left, batch);
    verify.right = with_mesh(options, meshes.back(), batch);
  }
  for (const RunSpec* spec : {&verify.left, &verify.right}) require_room_here(*spec);
  verify.steps = options.steps;
  if (options.tolerance >= 0) verify.tolerance = options.tolerance;
  if (!options.inject.empty()) verify.inject = parse_injection(options.inject);
  return verify_meshes(verify);
}

VerifyReport against_golden(const VerifyCommandOptions& options) {
  require_config(!options.hf.empty(),
                 "--golden has values recorded of a folder: give --hf as well");
  require_config(options.source.file.empty(), "give a run file or --hf, not both");
  require_config(options.meshes.size() <= 1, "--hf takes one --mesh, got {}",
                 options.meshes.size());
  GoldenOptions golden;
  golden.hf = options.hf;
  golden.golden = options.golden;
  if (!options.meshes.empty()) golden.parallel = parse_mesh(options.meshes.front(), {});
  golden.dtype = dtype_of(options, DType::kF64);
  if (options.tolerance >= 0) golden.tolerance = options.tolerance;
  return verify_golden(golden);
}

// The default length of a sequence, or what the model has positions for.
std::string short_length(const std::string& folder) {
  const std::string path = hf_config_path(folder);
  const int64_t positions =
      model_from_hf_config(read_hf_config(folder, read_text), path).max_positions;
  const int64_t usual = TrainSpec().seq_len;
  return fmt::format("train.seq_len={}", positions > 0 ? std::min(positions, usual) : usual);
}

// A checkpoint says itself which model it is of.
VerifyReport of_checkpoint(const VerifyCommandOptions& options) {
  for (const std::string& override : options.source.overrides) {
    throw ConfigError(fmt::format(
        "--set {}: a checkpoint says itself what its model is; leave it out", override));
  }
  RunSpec spec = open_model_folder(options.hf).spec;
  if (!options.meshes.empty()) spec.parallel = parse_mesh(options.meshes.front(), {});
  spec.train.global_batch = 0;
  spec.train.dtype = dtype_of(options, DType::kF32);
  resolve(spec);
  return check_hf(std::move(spec));
}

// The folder alone: does it load, and what is its loss?
VerifyReport of_folder(const VerifyCommandOptions& options) {
  require_config(options.source.file.empty(), "give a run file or --hf, not both");
  require_config(options.meshes.size() <= 1, "--hf takes one --mesh, got {}",
                 options.meshes.size());
  if (find_checkpoint_model(options.hf)) return of_checkpoint(options);
  RunSource source = options.source;
  source.may_lack_file = true;
  source.flags.push_back({fmt::format("model.hf='{}'", options.hf), "--hf " + options.hf});
  if (!options.meshes.empty()) source.mesh = options.meshes.front();
  const std::vector<std::string>& set = source.overrides;
  const bool has_length = std::any_of(set.begin(), set.end(), [](const std::string& text) {
    return text.starts_with("train.seq_len");
  });
  if (!has_length) source.flags.push_back({short_length(options.hf), "--hf " + options.hf});
  RunSpec spec = source.load(read_text);
  spec.train.dtype = dtype_of(options, DType::kF32);
  return check_hf(std::move(spec));
}

VerifyReport verify(const VerifyCommandOptions& options) {
  if (!options.against.empty()) return between_types(options);
  if (!options.golden.empty()) return against_golden(options);
  return options.hf.empty() ? between_meshes(options) : of_folder(options);
}

}  // namespace

Command add_verify(CLI::App& root) {
  CLI::App* app = add_command(
      root, "verify",
      {"Check that meshes compute the same numbers, step by step.",
       "tessera verify examples/demo.toml --mesh dp=2,tp=2", "tessera plan examples/demo.toml"});
  auto options = std::make_shared<VerifyCommandOptions>();
  add_file_and_set(*app, options->source);
  add_list(*app, "--mesh", options->meshes, "MESH",
           "a mesh, compared with one rank or with a second --mesh");
  add_whole(*app, "--steps", options->steps, 1, "training steps to compare (default 3)");
  add_choice(*app, "--dtype", options->dtype, "f64|f32|bf16|fp8",
             "arithmetic (default f64; f32 with --hf alone)");
  add_choice(*app, "--against", options->against, "f64|f32|bf16|f16|fp8",
             "with --dtype: train in both types, loss and gradient norm side by side");
  add_real(*app, "--tolerance", options->tolerance, 0,
           "largest relative difference; 0: same bits (default 1e-12; with --hf 1e-9, with "
           "--against 0.005, of the loss)");
  add_text(*app, "--hf", options->hf, "DIR",
           "a Hugging Face folder with weights, or a checkpoint: its loss, or see --golden");
  add_text(*app, "--tokenizer", options->tokenizer, "DIR",
           "a folder with a tokenizer.json: does it give the ids of --golden?");
  add_text(*app, "--golden", options->golden, "FILE", "recorded values for --hf or --tokenizer");
  add_switch(*app, "--json", options->json, "print JSON");
  hide(add_text(*app, "--inject", options->inject, "SPEC", "provoke a fault"));
  return {app, [options](Console& console) { return run_verify(*options, console); }};
}

int run_verify(const VerifyCommandOptions& options, Console& console) {
  if (!options.tokenizer.empty()) {
    require_config(options.hf.empty() && options.source.file.empty() && options.meshes.empty(),
                   "--tokenizer takes --golden and --json alone");
    return run_verify_tokenizer(options.tokenizer, options.golden, options.json, console);
  }
  const VerifyReport report = verify(options);
  if (options.json) {
    console.out << report.json.dump(2) << '\n';
  } else {
    console.out << fitted(console, report.text);
  }
  return static_cast<int>(report.equal ? ExitCode::kOk : ExitCode::kFailed);
}

}  // namespace tessera

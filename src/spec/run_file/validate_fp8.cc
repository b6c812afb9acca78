#include "spec/run_file/validate_fp8.h"

#include "base/error.h"
#include "spec/nearby.h"

namespace tessera {
namespace {

void check_type(const TrainSpec& train) {
  const Fp8Spec& fp8 = train.fp8;
  if (fp8.asked || !fp8.on()) return;
  require_config(
      train.dtype == DType::kF32 || train.dtype == DType::kF64,
      "train.fp8_recipe = \"{}\" is for dtype = \"fp8\" (or for f32 and f64, to see what "
      "8 bits alone change); leave it out with dtype = \"{}\"",
      name_of(fp8.recipe), name_of(train.dtype));
}

void check_options(const RunSpec& spec) {
  const Fp8Spec& fp8 = spec.train.fp8;
  const Fp8Spec plain;
  if (!fp8.on()) {
    require_config(fp8.bf16_first == 0 && fp8.bf16_last == 0 && fp8.block == plain.block,
                   "train.fp8_bf16_first, fp8_bf16_last and fp8_block are for dtype = \"fp8\"; "
                   "leave them out with dtype = \"{}\"",
                   name_of(spec.train.dtype));
    return;
  }
  require_config(fp8.bf16_first + fp8.bf16_last < spec.model.layers,
                 "train.fp8_bf16_first + fp8_bf16_last = {} + {} leave none of {} blocks in 8 "
                 "bits; use fewer, or dtype = \"bf16\"",
                 fp8.bf16_first, fp8.bf16_last, spec.model.layers);
  require_config(fp8.recipe == Fp8Recipe::kBlock || fp8.block == plain.block,
                 "train.fp8_block = {} is for fp8_recipe = \"block\"; leave it out with \"{}\"",
                 fp8.block, name_of(fp8.recipe));
}

// A piece that several ranks had a part of would need them all to agree on its scale.
void check_cut(std::string_view what, int64_t width, int64_t ranks, std::string_view axis,
               int64_t block) {
  if (ranks == 1) return;
  require_config(width % ranks == 0 && width / ranks % block == 0,
                 "train.fp8_recipe = \"block\": {} = {} over {} = {} gives parts that blocks of {} "
                 "do not divide; use a multiple of {}, a smaller fp8_block, or fp8_recipe = "
                 "\"row\"",
                 what, width, axis, ranks, block, ranks * block);
}

void check_blocks(const RunSpec& spec) {
  if (spec.train.fp8.recipe != Fp8Recipe::kBlock) return;
  const ModelSpec& model = spec.model;
  const int64_t tp = spec.parallel.tp, block = spec.train.fp8.block;
  check_cut("heads * head_dim", model.heads * model.head_dim, tp, "tp", block);
  check_cut("kv_heads * head_dim", model.kv_heads * model.head_dim, tp, "tp", block);
  check_cut("ffn", model.ffn, tp, "tp", block);
  // A rank has two chunks of every sequence.
  const int64_t cp = spec.parallel.cp;
  check_cut("seq_len", spec.train.seq_len, cp == 1 ? 1 : 2 * cp, "2 * cp", block);
}

}  // namespace

void resolve_fp8(RunSpec& spec) {
  Fp8Spec& fp8 = spec.train.fp8;
  if (fp8.asked && !fp8.on()) fp8.recipe = Fp8Recipe::kTensor;
  check_type(spec.train);
  check_options(spec);
  if (!fp8.on()) return;
  require_config(spec.train.device != TrainDevice::kCuda,
                 "train.dtype = \"fp8\" is computed by the CPU alone so far, but train.device = "
                 "\"cuda\"; use device = \"cpu\", or dtype = \"bf16\"");
  require_config(spec.model.experts == 0,
                 "train.dtype = \"fp8\" is not there for the products of experts yet; use dtype = "
                 "\"bf16\", or a model without experts");
  require_config(spec.model.kv_heads % spec.parallel.tp == 0,
                 "train.dtype = \"fp8\": tp = {} does not divide kv_heads = {}, so that gradients "
                 "of keys are sums of several ranks, whose scale none of them knows; use tp = {}, "
                 "or dtype = \"bf16\"",
                 spec.parallel.tp, spec.model.kv_heads,
                 either(nearby_divisors(spec.model.kv_heads, spec.parallel.tp)));
  check_blocks(spec);
}

std::string why_not_fp8(RunSpec spec) {
  spec.train.dtype = DType::kBF16;
  spec.train.fp8.asked = true;
  spec.train.device = TrainDevice::kCpu;
  try {
    resolve_fp8(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace tessera

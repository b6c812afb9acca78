// What an entry says of its kernels, its number formats and what runs beside what.
#include "base/error.h"
#include "published/entry_parts.h"
#include "published/words.h"

namespace tessera {
namespace {

void read_recompute(EntryReading& r) {
  Strategy& s = r.run.strategy;
  const std::string text = r.opts.text("recompute");
  const std::string kind = meaning("recompute", text);
  if (kind == "full") {
    s.recompute = Recompute::kFull;
  } else if (kind == "half") {
    // Per op: every second product is computed again, which is half of the arithmetic too.
    s.recompute = Recompute::kFull;
    s.recompute_layers = r.run.workload.model.layers / s.pp / 2;
  } else if (kind == "selective") {
    s.recompute = Recompute::kSelective;
  } else if (kind != "none") {
    r.recompute_open = true;
  }
}

// Flash attention came late to models of the GPT kind: their scripts had to ask for it, and then
// their reports say so.
void read_attention(EntryReading& r) {
  Workload& w = r.run.workload;
  const std::string text = r.opts.text("attention");
  const std::string kind = text.empty() ? "open" : meaning("attention", text);
  w.attention = kind == "unfused" ? AttentionKind::kUnfused
                : kind == "own"   ? AttentionKind::kFlash
                                  : AttentionKind::kPortableFlash;
  if (kind != "open") return;
  const bool unfused = !w.model.gated_mlp;
  if (unfused) w.attention = AttentionKind::kUnfused;
  r.guess("attention", unfused ? "unfused, a plain MLP being of its time" : "flash", unfused);
}

// A distributed optimizer sums and gathers bucket by bucket, for which it was made, and engines
// that have one send between virtual stages while others compute.
void guess_overlap(EntryReading& r) {
  const Strategy& s = r.run.strategy;
  OverlapChoice& overlap = r.run.workload.overlap;
  const bool buckets = means("buckets", r.parallel.text("zero"), "yes");
  overlap.data = s.pp == 1 || buckets;
  overlap.pipeline = buckets && s.virtual_stages > 1;
  if (s.dp > 1) {
    r.guess("overlap of data parallelism",
            !overlap.data ? "no"
            : s.pp == 1   ? "yes, without a pipeline"
                          : "yes, by buckets",
            false);
  }
  if (overlap.pipeline) r.guess("overlap of the pipeline's messages", "yes, interleaved", false);
}

void read_overlap(EntryReading& r) {
  OverlapChoice& overlap = r.run.workload.overlap;
  const std::string text = r.opts.text("overlap");
  if (text.empty()) {
    guess_overlap(r);
  } else if (means("overlap", text, "none")) {
    overlap.data = false;
  } else {
    overlap.data = means("overlap", text, "data");
    overlap.tensor = means("overlap", text, "tensor");
    overlap.pipeline = means("overlap", text, "pipeline");
  }
  overlap.tensor = overlap.tensor || r.opts.yes("async_tp");
}

}  // namespace

void read_options(EntryReading& r) {
  read_recompute(r);
  read_attention(r);
  read_overlap(r);
  r.run.workload.fused_loss = r.opts.yes("ce_fusion");
}

void read_precision(EntryReading& r) {
  PrecisionChoice& p = r.run.workload.precision;
  const std::string text = r.opts.text("precision");
  const DeviceSpec& device = r.run.workload.cluster.device;
  p = {};
  const std::string products = meaning("products", text);
  for (int i = 0; i < kNumMathTypes; ++i) {
    if (name_of(static_cast<MathType>(i)) == products) p.products = static_cast<MathType>(i);
  }
  if (p.products == MathType::kF32 || p.products == MathType::kTF32) {
    p.parameter_bytes = p.activation_bytes = 4;
    p.state_bytes = 8;
  }
  if (device.peak(p.products) == 0) p.products = MathType::kF16;
  const std::string gradients = meaning("gradients", text);
  // 16-bit gradients where the source does not speak of 32 bits: fp16 engines, pure bf16 ones.
  if (gradients == "16") {
    p.gradient_bytes = 2;
    p.state_bytes = 14;  // 18 in all (Korthikanti et al. 2022, figure 1)
  }
  // Products add to sums of 32 bits (Megatron since 2022); what adds to 16-bit ones, or is worth
  // a word in the report, is a kernel of its own.
  p.adds_gradients_apart = p.gradient_bytes == 2 || gradients == "32";
}

}  // namespace tessera

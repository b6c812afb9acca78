#include "published/memory_measures.h"

#include <gtest/gtest.h>

#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/to_double.h"

namespace tessera {
namespace {

Workload dense() {
  Workload w;
  w.model.layers = 32;
  w.model.hidden = 4096;
  w.model.heads = w.model.kv_heads = 32;
  w.model.head_dim = 128;
  w.model.ffn = 11008;
  w.model.vocab = 32000;
  w.model.gated_mlp = true;
  w.cluster = find_cluster("a100");
  w.cluster.devices = 8;
  w.engine = find_engine("megatron").numbers;
  w.seq_len = 4096;
  w.global_batch = 64;
  return w;
}

TEST(MemoryMeasuresTest, CheapPartsAreCounted) {
  Strategy s;
  s.dp = 8;
  // Two norms and an activation; kept are inputs and outputs of both norms, queries, keys, values,
  // the core's output, three times the inner width, and two 16-bit elements a head for its sums.
  const double kept = 4 * 4096 + 3 * 4096 + 4096 + 3 * 11008 + 2 * 32;
  EXPECT_NEAR(cheap_share(dense(), s), (2 * 4096 + 11008) / kept, 1e-9);
  Workload latent = dense();
  latent.model.latent = true;
  latent.model.mla = {1536, 512, 128, 64, 128};
  EXPECT_GT(cheap_share(latent, s), cheap_share(dense(), s));
  EXPECT_LT(cheap_share(latent, s), 1);
}

TEST(MemoryMeasuresTest, EachMeasureMakesRoom) {
  Workload w = dense();
  Strategy s;
  s.dp = 8;
  s.zero = 0;
  CostModel plain(w);
  const double whole = to_double(plain.peak_bytes(s));
  const auto fits = [&](double bytes, bool taken) {
    w.cluster.device.memory_bytes.value = bytes + w.cluster.device.reserved_bytes.value;
    MemoryMeasures memory(w, taken);
    memory.price_batch(w.global_batch);
    return memory.fits(s);
  };
  const double gradients = 2 * to_double(w.model.parameters());
  EXPECT_TRUE(fits(whole, false));
  EXPECT_FALSE(fits(whole - 1, false));
  EXPECT_TRUE(fits(whole - gradients, true));
  EXPECT_FALSE(fits(whole - gradients - 1, true));
  s.elementwise_again = ElementwiseAgain::kNormsAndActivations;
  EXPECT_TRUE(fits(whole - gradients - 1, true));
  EXPECT_FALSE(fits(whole / 2, true));
}

}  // namespace
}  // namespace tessera

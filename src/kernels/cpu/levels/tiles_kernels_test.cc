// Kernels on tiles: attention and linear layers, right for every shape and team, inside their
// operands, and on tiles indeed. Other tests of kernels run on tiles where tests/CMakeLists.txt
// says so.
#include "kernels/cpu/gemm.h"
#include "kernels/testing/attention_reference.h"
#include "kernels/testing/guarded.h"
#include "kernels/testing/tiles_here.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

class TileKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TilesHere::possible()) GTEST_SKIP() << "this CPU has no AVX512_BF16";
    here_.emplace();
    if (cpu::tile_products() == nullptr) GTEST_SKIP() << "products are those of a library";
  }
  // Nobody counts what the CPU does.
  static void expect_used(int64_t since) { EXPECT_TRUE(TilesHere::native() || used() > since); }
  static int64_t used() { return TileEmulator::counts().multiplied; }

 private:
  std::optional<TilesHere> here_;
};

// Heads of one tile, of a part of one, of several; keys that end inside a tile; shared keys;
// windows that begin inside a tile.
const std::vector<AttentionCase> kCases = {
    {1, {.seq_len = 64, .heads = 1, .kv_heads = 1, .head_dim = 16}},
    {2, {.seq_len = 33, .heads = 2, .kv_heads = 2, .head_dim = 32}},
    {1, {.seq_len = 150, .heads = 4, .kv_heads = 2, .head_dim = 40, .heads_per_kv = 2}},
    {1, {.seq_len = 65, .heads = 3, .kv_heads = 1, .head_dim = 64, .heads_per_kv = 3}},
    {1, {.seq_len = 47, .heads = 1, .kv_heads = 1, .head_dim = 128}},
    {1, {.seq_len = 150, .heads = 2, .kv_heads = 2, .head_dim = 32, .window = 70}},
    {1,
     {.seq_len = 100, .heads = 2, .kv_heads = 1, .head_dim = 64, .heads_per_kv = 2, .window = 5}},
};

// Every operand at the end of its pages.
struct Pass {
  int64_t tokens, width, kv_width, heads;
  Guarded<BFloat16> q, kv, d_o, o, dq, dkv;
  Guarded<float> lse;

  Pass(const AttentionCase& c, bool at_end)
      : tokens(c.batch * c.shape.seq_len),
        width(c.shape.heads * c.shape.head_dim),
        kv_width(2 * c.shape.kv_heads * c.shape.head_dim),
        heads(c.shape.heads),
        q(tokens * width, at_end),
        kv(tokens * kv_width, at_end),
        d_o(tokens * width, at_end),
        o(tokens * width, at_end),
        dq(tokens * width, at_end),
        dkv(tokens * kv_width, at_end),
        lse(tokens * heads, at_end) {}

  static void copy(const Array& from, Guarded<BFloat16>& to) {
    std::memcpy(to.data(), from.tensor().data, static_cast<size_t>(from.tensor().bytes()));
  }
  static std::vector<double> values(Guarded<BFloat16>& x, int64_t count) {
    std::vector<double> all;
    for (int64_t i = 0; i < count; ++i) all.push_back(static_cast<float>(x.data()[i]));
    return all;
  }
  Tensor narrow(Guarded<BFloat16>& x, int64_t columns) {
    return {x.data(), DType::kBF16, {tokens, columns}};
  }
  void run(const AttentionShape& s, int threads) {
    Tensor tq = narrow(q, width), tkv = narrow(kv, kv_width), td_o = narrow(d_o, width);
    Tensor to = narrow(o, width), tdq = narrow(dq, width), tdkv = narrow(dkv, kv_width);
    Tensor tlse{lse.data(), DType::kF32, {tokens, heads}};
    Rig forward(threads, workspace::attention(DType::kBF16, s.seq_len, s.head_dim, threads));
    attention(forward, tq, tkv, to, tlse, s);
    Rig backward(threads, workspace::attention_grad(DType::kBF16, s.seq_len, s.head_dim, threads));
    attention_grad(backward, tq, tkv, to, tlse, td_o, tdq, tdkv, s);
  }
};

// bf16 against f64 on the same inputs, with the errors of bf16 operands: of what is stored, and of
// probabilities and their gradients.
void expect_near(const std::vector<double>& got, const std::vector<double>& want, double part,
                 const char* what) {
  double error = 0, size = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
    largest = std::max(largest, std::abs(want[i]));
  }
  EXPECT_LE(std::sqrt(error), part * std::sqrt(size)) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), 4 * part * largest) << what << " at " << i;
  }
}

TEST_F(TileKernels, AttentionAndItsGradientsMatchDoublePrecision) {
  for (const AttentionCase& c : kCases) {
    Rng rng(1);
    const AttentionShape& s = c.shape;
    const int64_t tokens = c.batch * s.seq_len;
    SCOPED_TRACE(
        fmt::format("S {} heads {} of {} window {}", s.seq_len, s.heads, s.head_dim, s.window));
    Array q(DType::kBF16, {tokens, s.heads * s.head_dim});
    Array kv(DType::kBF16, {tokens, 2 * s.kv_heads * s.head_dim}), d_o = q;
    for (Array* x : {&q, &kv, &d_o}) x->randomise(rng);
    const Array q64 = convert(q, DType::kF64), kv64 = convert(kv, DType::kF64);
    const Array d_o64 = convert(d_o, DType::kF64);
    Array o64 = q64, dq64 = q64, dkv64 = kv64, lse64(DType::kF64, {tokens, s.heads});
    Rig exact(1, workspace::attention_grad(DType::kF64, s.seq_len, s.head_dim, 1));
    attention(exact, q64, kv64, o64, lse64, s);
    attention_grad(exact, q64, kv64, o64, lse64, d_o64, dq64, dkv64, s);

    std::vector<std::vector<double>> first;
    for (const int threads : {1, 2, 3}) {
      Pass pass(c, threads != 2);
      Pass::copy(q, pass.q);
      Pass::copy(kv, pass.kv);
      Pass::copy(d_o, pass.d_o);
      const int64_t before = used();
      pass.run(s, threads);
      expect_used(before);
      const std::vector<std::vector<double>> all = {
          Pass::values(pass.o, q.size()),
          Pass::values(pass.dq, q.size()),
          Pass::values(pass.dkv, kv.size()),
          {pass.lse.data(), pass.lse.data() + tokens * s.heads}};
      if (threads == 1) {
        first = all;
        expect_near(all[0], o64.values(), 0x1p-8, "o");
        expect_near(all[1], dq64.values(), 0x1p-7, "dq");
        expect_near(all[2], dkv64.values(), 0x1p-7, "dkv");
        expect_near(all[3], lse64.values(), 1e-5, "lse");
      }
      EXPECT_EQ(all, first) << threads << " threads";
    }
  }
}

TEST_F(TileKernels, SmallHeadsAreComputedWithoutTiles) {
  Pass pass({1, {.seq_len = 9, .heads = 1, .kv_heads = 1, .head_dim = 4}}, true);
  const int64_t before = used();
  pass.run({.seq_len = 9, .heads = 1, .kv_heads = 1, .head_dim = 4}, 1);
  EXPECT_EQ(used(), before);
}

// Packed by all members together, and each for itself where the workspace is too small for that:
// the same bits from any team.
TEST_F(TileKernels, LinearLayersHaveTheSameBitsFromAnyTeam) {
  for (const auto& [tokens, out, in] :
       {std::array<int64_t, 3>{130, 200, 96}, {70, 33, 300}, {5, 40, 7}}) {
    Rng rng(2);
    const Array x = Array(DType::kBF16, {tokens, in}).randomise(rng);
    const Array w = Array(DType::kBF16, {out, in}).randomise(rng);
    const Array dy = Array(DType::kBF16, {tokens, out}).randomise(rng);
    std::optional<Array> y_first, dx_first, dw_first, narrow_first;
    for (const int threads : {1, 2, 3, 4, 6}) {
      SCOPED_TRACE(fmt::format("{}x{}x{} threads {}", tokens, out, in, threads));
      Rig rig(threads, workspace::linear(DType::kBF16, tokens, out, in, threads));
      Array y(DType::kBF16, {tokens, out}), dx(DType::kBF16, {tokens, in});
      Array dw(DType::kF32, {out, in}), narrow(DType::kBF16, {out, in});
      dw.fill(0.5);
      narrow.fill(0.5);
      dx.fill(0.25);
      const int64_t before = used();
      linear(rig, x, w, y);
      linear_dx(rig, dy, w, dx, true);
      linear_dw(rig, dy, x, dw, true);
      linear_dw(rig, dy, x, narrow, true);
      expect_used(before);
      if (threads == 1) {
        y_first.emplace(y), dx_first.emplace(dx), dw_first.emplace(dw),
            narrow_first.emplace(narrow);
      }
      EXPECT_TRUE(y.same_bits(*y_first));
      EXPECT_TRUE(dx.same_bits(*dx_first));
      EXPECT_TRUE(dw.same_bits(*dw_first));
      EXPECT_TRUE(narrow.same_bits(*narrow_first));
    }
  }
}

}  // namespace
}  // namespace tessera::kernels

#include "cost/step/link_load.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/cost_model.h"
#include "cost/step/stages.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

Workload workload(const std::string& model, const std::string& cluster, int64_t batch,
                  const std::string& engine) {
  Workload w;
  w.model = shape_of(find_model(model).model, 2048);
  w.cluster = find_cluster(cluster);
  w.engine = find_engine(engine).numbers;
  w.seq_len = 2048;
  w.global_batch = batch;
  return w;
}

// Message by message: what each device of one pipeline sends and receives at each level, over the
// rate of its link there, in the busier direction.
double counted_s(const Workload& w, const Strategy& s, double message_bytes) {
  const int64_t stages = s.pp * s.virtual_stages;
  const double micro_batches = static_cast<double>(w.global_batch / (s.dp * s.micro_batch));
  std::map<std::tuple<int64_t, int, bool>, double> seconds;  // device, level, direction
  for (int64_t stage = 0; stage + 1 < stages; ++stage) {
    for (const bool forward : {true, false}) {
      int64_t from = rank_of_stage(s, stage), to = rank_of_stage(s, stage + 1);
      if (from == to) continue;
      if (!forward) std::swap(from, to);
      const int64_t stride = strides_of(s).pp;
      const SendTime sent = send_time(w.cluster, from * stride, to * stride, message_bytes);
      seconds[{from, sent.level, true}] += micro_batches * sent.wire_s;
      seconds[{to, sent.level, false}] += micro_batches * sent.wire_s;
    }
  }
  double most = 0;
  for (const auto& [link, busy] : seconds) most = std::max(most, busy);
  return most;
}

TEST(LinkLoadTest, MessagesAreCountedAsTheyAreSent) {
  for (const char* cluster : {"pc-4x24-8", "two-pcs", "h100-16", "a100-32"}) {
    const int64_t devices = find_cluster(cluster).devices;
    for (const PipelineKind kind : {PipelineKind::k1F1B, PipelineKind::kInterleaved,
                                    PipelineKind::kZbV, PipelineKind::kZbH1}) {
      for (int64_t pp = 2; pp <= devices && pp <= 16; pp *= 2) {
        for (const RankOrder order :
             {RankOrder::kTensorDataPipeline, RankOrder::kPipelineTensorData}) {
          Strategy s;
          s.pp = pp;
          s.dp = devices / pp;
          s.schedule = kind;
          s.virtual_stages =
              kind == PipelineKind::kInterleaved || kind == PipelineKind::kZbV ? 2 : 1;
          s.order = order;
          const Workload w = workload("llama-2-7b", cluster, 4 * devices, "tessera");
          const double bytes = 2.0 * 2048 * static_cast<double>(w.model.hidden);
          LinkLoad load;
          const double m = static_cast<double>(w.global_batch / s.dp);
          const auto chunks = static_cast<double>(s.virtual_stages);
          add_messages(load, w.cluster,
                       {{s.pp, strides_of(s).pp},
                        bytes,
                        m * chunks,
                        kind == PipelineKind::kInterleaved ? m * (chunks - 1) : 0});
          EXPECT_NEAR(load.busiest().seconds, counted_s(w, s, bytes), 1e-9)
              << cluster << " " << name_of(kind) << " pp " << pp << " " << name_of(order);
        }
      }
    }
  }
}

// One bus carries what all devices say.
TEST(LinkLoadTest, ABusCarriesEveryMessageOnce) {
  Cluster cluster = with_devices(find_cluster("cpu"), 4);
  ASSERT_EQ(cluster.levels.front().shape, LinkShape::kShared);
  LinkLoad load;
  add_messages(load, cluster, {{4, 1}, 1e6, 10, 0});
  const LinkLevel& bus = cluster.levels.front();
  const double all = 3 * 2 * 10 * 1e6;  // boundaries, directions, messages
  EXPECT_NEAR(load.busiest().seconds, all / (bus.bandwidth.value * bus.efficiency.value), 1e-9);
}

TEST(LinkLoadTest, LevelsAreLinksOfTheirOwn) {
  LinkLoad load;
  load.add(0, CommAxis::kTensor, 3);
  load.add(1, CommAxis::kPipeline, 2);
  EXPECT_EQ(load.busiest().seconds, 3);
  load.add(1, CommAxis::kData, 2.5);
  EXPECT_EQ(load.busiest().seconds, 4.5);
  EXPECT_EQ(load.busiest().axis, CommAxis::kData);
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  int64_t of(std::vector<int64_t> choices) { return choices[engine_() % choices.size()]; }
  // A power of two that divides `left`, which loses it.
  int64_t part(int64_t& left, int64_t most) {
    std::vector<int64_t> choices;
    for (int64_t k = 1; k <= std::min(left, most); k *= 2) choices.push_back(k);
    const int64_t taken = of(choices);
    left /= taken;
    return taken;
  }

  Strategy strategy(int64_t devices) {
    Strategy s;
    int64_t left = devices;
    s.tp = part(left, 8);
    s.pp = part(left, 8);
    s.cp = part(left, 4);
    s.dp = left;
    s.zero = of({0, 1, 2, 3});
    s.sequence_parallel = of({0, 1}) == 1;
    s.context = static_cast<ContextKind>(of({0, 1}));
    s.order = static_cast<RankOrder>(of({0, 1, 2, 3}));
    constexpr PipelineKind kSchedules[] = {PipelineKind::kNaive, PipelineKind::kGPipe,
                                           PipelineKind::k1F1B,  PipelineKind::kInterleaved,
                                           PipelineKind::kZbH1,  PipelineKind::kZbH2};
    if (s.pp > 1) s.schedule = kSchedules[static_cast<size_t>(of({0, 1, 2, 3, 4, 5}))];
    if (s.schedule == PipelineKind::kInterleaved || s.schedule == PipelineKind::kZbV) {
      s.virtual_stages = 2;
    }
    return s;
  }

 private:
  std::mt19937 engine_;
};

// What a rank sends on each axis, by the traffic that the estimate itself reports.
TEST(LinkLoadTest, NoStepIsShorterThanItsBusiestLink) {
  Draw draw(11);
  int bound = 0;
  for (int i = 0; i < 2400; ++i) {
    const std::string cluster = std::vector<std::string>{
        "pc-4x24-8", "two-pcs", "h100-16", "a100-32"}[static_cast<size_t>(draw.of({0, 1, 2, 3}))];
    const std::string engine = draw.of({0, 1}) == 0 ? "tessera" : "megatron";
    Workload w = workload("llama-2-7b", cluster, 64, engine);
    w.overlap.pipeline = draw.of({0, 1}) == 1;
    const Strategy s = draw.strategy(w.cluster.devices);
    if (!why_impossible(w, s).empty()) continue;
    CostModel model(w);
    const Estimate estimate = model.estimate(s);
    const StepTime& time = estimate.time;
    EXPECT_GE(time.step_s, time.link_s * (1 - 1e-12)) << cluster << " " << i;
    EXPECT_EQ(model.step_s(s), time.step_s);
    const bool split = s.sequence_parallel || engine == "megatron";
    const double message =
        2.0 * 2048 *
        static_cast<double>(w.model.hidden * s.micro_batch / s.cp / (split ? s.tp : 1));
    if (s.pp > 1) {
      EXPECT_GE(time.step_s, counted_s(w, s, message) * (1 - 1e-9)) << cluster << " " << i;
    }
    double parts = time.compute_s + time.bubble_s + time.optimizer_s;
    for (const double exposed : time.exposed_s) parts += exposed;
    EXPECT_NEAR(parts, time.step_s, 1e-9 * time.step_s) << cluster << " " << i;
    bound += time.step_s == time.link_s ? 1 : 0;
  }
  EXPECT_GT(bound, 5) << "no link was ever the limit: the draw tests nothing";
}

}  // namespace
}  // namespace tessera

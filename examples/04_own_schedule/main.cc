// A pipeline schedule of one's own: 1F1B that keeps at most so many micro-batches alive, whatever
// it costs in waiting. Written as lists, checked, simulated, planned.
#include <tessera/tessera.h>

#include <algorithm>
#include <cstdio>
#include <string>

using tessera::Json;
using tessera::Schedule;

// Every rank begins with as many forwards as it may keep, then goes on one backward, one forward.
Schedule capped(int pp, int micro_batches, int most_alive) {
  Schedule schedule;
  for (int rank = 0; rank < pp; ++rank) {
    schedule.rank_of_stage.push_back(rank);  // one stage each
    auto& cells = schedule.ranks.emplace_back();
    const int warmup = std::min({pp - rank, most_alive, micro_batches});
    int forwards = 0;
    while (forwards < warmup) cells.push_back({'F', rank, forwards++});
    for (int backwards = 0; backwards < micro_batches; ++backwards) {
      cells.push_back({'B', rank, backwards});
      if (forwards < micro_batches) cells.push_back({'F', rank, forwards++});
    }
  }
  return schedule;
}

// Memory and time of the same model under a schedule, its name or a file.
Json plan_under(const std::string& schedule, const Json& files) {
  return tessera::plan({{"model", "llama-3-8b"},
                        {"cluster", "h100-8"},
                        {"pp", 4},
                        {"dp", 2},
                        {"zero", 1},
                        {"seq_len", 4096},
                        {"global_batch", 16},
                        {"micro_batch", 1},
                        {"schedule", schedule},
                        {"files", files}});
}

void print_row(const char* name, const Schedule& schedule, const Json& plan) {
  const Json times = tessera::schedule_times(schedule);
  std::printf("%-12s %6.1f %% %6d %10.1f GB\n", name, 100 * times.at("bubble").get<double>(),
              times.at("peak_live").get<int>(), plan.at("peak_bytes").get<double>() / 1e9);
}

int main() {
  try {
    std::printf("%-12s %8s %6s %13s\n", "schedule", "bubble", "alive", "peak of a rank");
    print_row("1f1b", tessera::named_schedule("1f1b", 4, 8), plan_under("1f1b", Json::object()));
    for (const int most : {3, 2, 1}) {
      const Schedule mine = capped(4, 8, most);
      const Json files = {{"capped.csv", tessera::schedule_csv(mine)}};
      print_row(("at most " + std::to_string(most)).c_str(), mine, plan_under("capped.csv", files));
    }

    // Ranks that would wait for each other for ever are found before anything starts.
    Schedule stuck = capped(2, 2, 1);  // rank 0: F0.0 B0.0 F0.1 B0.1
    stuck.ranks[1] = {{'F', 1, 0}, {'F', 1, 1}, {'B', 1, 0}, {'B', 1, 1}};
    tessera::schedule_csv(stuck);
  } catch (const tessera::Refusal& refusal) {
    std::printf("refused: %s\n", refusal.what());
    return refusal.exit_code() == 2 ? 0 : 1;
  }
  return 1;
}

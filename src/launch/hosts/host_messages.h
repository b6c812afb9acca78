// The bodies of control frames between agents and coordinator. Each parse throws Error where the
// body is not what it should be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/agent/overseer.h"
#include "launch/agent/rank_loss.h"

namespace tessera {

// Who comes to the coordinator. The generation whose ranks it has, or whose end it has not told
// yet, is in the frame.
struct HostHello {
  int host = 0;             // --host-rank
  std::string incarnation;  // of this agent; another process has another one
};

// What a new generation is, for one host.
struct GenerationStart {
  int first_rank = 0;  // of this host
  int ranks = 0;       // of this host
  int world = 0;
  std::vector<std::string> addresses = {};    // of all ranks: "10.0.0.5:4711"
  std::vector<std::string> environment = {};  // "NAME=value", for the ranks
};

// How a generation has ended on one host.
struct GenerationReport {
  int exit_code = 0;
  std::string message = {};  // empty: there is nothing to say
  bool opened = false;       // the run directory is this run's
  enum class Why : uint8_t {
    kByItself,  // its ranks have ended, well or not
    kOrdered,   // the coordinator wanted them to end
    kFenced,    // the agent ended them because it heard nothing
  };
  Why why = Why::kByItself;
  std::optional<RankLoss> loss = {};
};

std::string to_body(const HostHello& hello);
std::string to_body(const GenerationStart& start);
std::string to_body(const GenerationReport& report);
std::string to_body(const std::vector<std::string>& texts);
std::string to_body(const HostSight& sight);
std::string to_body(const HostWhereabouts& whereabouts);  // texts that are too long are cut
std::string to_body(const RankCommand& order);
HostHello parse_hello(std::string_view bytes);
GenerationStart parse_start(std::string_view bytes);
GenerationReport parse_report(std::string_view bytes);
std::vector<std::string> parse_texts(std::string_view bytes);
HostSight parse_sight(std::string_view bytes);
HostWhereabouts parse_whereabouts(std::string_view bytes);
RankCommand parse_order(std::string_view bytes);

}  // namespace tessera

#include "search/deadline_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace tessera {
namespace {

std::string usd_text(double usd) {
  return usd > 0 ? with_thousands(static_cast<int64_t>(usd)) : "-";
}

std::string below_text(const TriedCount& count) {
  if (count.step_s == 0) return fmt::format("{}: {}", with_thousands(count.devices), count.lacks);
  return fmt::format("{} take {:.1f} days", with_thousands(count.devices), count.days);
}

std::string answer_text(const DeadlineAnswer& answer) {
  const DeadlineQuestion& asked = answer.question;
  const std::string question = fmt::format("{} tokens in {:g} {}", with_thousands(asked.tokens),
                                           asked.days, asked.days == 1 ? "day" : "days");
  const auto is_faster = [](const TriedCount& a, const TriedCount& b) {
    return a.step_s > 0 && (b.step_s == 0 || a.step_s < b.step_s);
  };
  const auto fastest = std::min_element(answer.tried.begin(), answer.tried.end(), is_faster);
  if (answer.devices == 0 && (fastest == answer.tried.end() || fastest->step_s == 0)) {
    return question + ": no number of devices that was tried has a plan that fits\n";
  }
  if (answer.devices == 0) {
    const std::string remedy =
        asked.most_devices < kMaxDevices
            ? fmt::format(
                  "one host has at most {} cards: name a cluster with a network (tessera "
                  "presets clusters)",
                  asked.most_devices)
        : answer.out_of_budget
            ? "others were not tried, since that takes more than one request may: name a cluster "
              "nearer to the answer, or fix --tp, --pp or --ep"
            : "a larger --global-batch gives more devices work";
    return fmt::format(
        "{}: no number of devices that was tried ends in time; the fastest, {}, {} "
        "{:.1f} days; {}\n",
        question, with_thousands(fastest->devices), fastest->devices == 1 ? "takes" : "take",
        fastest->days, remedy);
  }
  const auto found = std::find_if(answer.tried.begin(), answer.tried.end(),
                                  [&](const TriedCount& c) { return c.devices == answer.devices; });
  std::string text =
      fmt::format("{}: {}, {:.1f} days", question, count_of(answer.devices, "device"), found->days);
  if (found->usd > 0) text += fmt::format(", {} USD", usd_text(found->usd));
  if (const TriedCount* below = answer.below()) text += "; " + below_text(*below);
  return text + "\n";
}

}  // namespace

std::string deadline_text(const DeadlineAnswer& answer, const Constant& price) {
  TextTable table({{"devices", Align::kRight},
                   {"step", Align::kRight},
                   {"days", Align::kRight},
                   {"USD", Align::kRight},
                   {"", Align::kLeft}});
  for (const TriedCount& count : answer.tried) {
    const bool has = count.step_s > 0;
    table.add_row({with_thousands(count.devices), has ? fmt::format("{:.4g} s", count.step_s) : "-",
                   has ? fmt::format("{:.2f}", count.days) : "-", usd_text(count.usd),
                   answer.is_met_by(count) ? "in time" : count.lacks});
  }
  const std::string assumed =
      price.value > 0
          ? fmt::format("at {:g} USD for a device and hour ({}); --usd-per-hour gives another\n",
                        price.value, price.source)
          : "no price is known: --usd-per-hour gives one\n";
  return answer_text(answer) + "\n" + table.str() + assumed;
}

nlohmann::ordered_json deadline_json(const DeadlineAnswer& answer) {
  nlohmann::ordered_json json = {{"days", answer.question.days},
                                 {"tokens", answer.question.tokens},
                                 {"devices", answer.devices}};
  json["tried"] = nlohmann::ordered_json::array();
  for (const TriedCount& count : answer.tried) {
    nlohmann::ordered_json one = {{"devices", count.devices}, {"in_time", answer.is_met_by(count)}};
    if (count.step_s > 0) {
      one["step_s"] = count.step_s;
      one["days"] = count.days;
      one["usd"] = count.usd;
    } else {
      one["lacks"] = count.lacks;
    }
    json["tried"].push_back(std::move(one));
  }
  return json;
}

}  // namespace tessera

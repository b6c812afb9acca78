// What failures cost a run, and how often it should save: failures come at random, at a rate that
// does not change (exponential), and each costs the work since the last save that is safe and a
// restart.
#pragma once

#include <cstdint>

namespace tessera {

// All in seconds.
struct FailureModel {
  double mtbf = 0;   // mean time between failures of the whole run; of a device, divided by devices
  double stall = 0;  // training stands still for so long in every save
  double write = 0;  // after the stall, until the save is safe; training goes on meanwhile
  double restart = 0;  // from a failure until training goes on from the last save
};

// Young (1974): the square root of twice the stall times the mean time between failures.
double young_interval(const FailureModel& model);

// Daly (2006), his higher-order form. Time of training between two saves.
double daly_interval(const FailureModel& model);

// Time that training `interval` takes on average, with its save, its failures, and the work that
// they undo; without approximation for saves that are safe as they end, and with the mean of what
// an asynchronous one adds. HUGE_VAL: it never gets there.
double expected_time(const FailureModel& model, double interval);

// Useful share of the time: interval / expected_time.
double goodput(const FailureModel& model, double interval);

// The interval with the largest goodput; to about nine digits.
double best_interval(const FailureModel& model);

}  // namespace tessera

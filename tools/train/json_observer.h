// JsonObserver: a run's events as JSON lines on standard output.
//
// Threads: as trainer::Observer.
#pragma once

#include "tools/output.h"
#include "trainer/events.h"
#include "trainer/observer.h"

namespace millrace::tools {

class JsonObserver final : public trainer::Observer {
 public:
  explicit JsonObserver(Output& out) : out_(out) {}

  void on_log_step(const trainer::StepEvent& event) override { write(trainer::to_json(event)); }
  void on_epoch_end(const trainer::EpochEvent& event) override { write(trainer::to_json(event)); }
  void on_fit_end(const trainer::EndEvent& event) override { write(trainer::to_json(event)); }

 private:
  void write(const std::string& line) {
    out_.line(line);
    out_.flush();
  }

  Output& out_;
};

}  // namespace millrace::tools

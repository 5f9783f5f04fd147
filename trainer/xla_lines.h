// XlaLines: a run's progress in the lines that PyTorch/XLA's tutorials print, for those who read
// or parse them, and its losses as NumPy files.
//
//   Process 0 is using cpu:0
//   -------------------------------------------------------
//   EPOCH 1/3
//   -------------------------------------------------------
//   - initialization | devices = 2, lr = 0.001000
//   - training...
//   -- batch 20 | cur_loss = 0.267580, avg_loss = 0.314150
//   - validation...
//   - elapsed time | train = 0.47 min, valid = 0.05 min
//   - average loss | train = 0.314150, valid = 0.290000
//   -------------------------------------------------------
//
//   Process 0 finished training. Train time was: 28.4
//   Process 0 finished evaluation. Evaluation time was: 3.2
//   Process 0 guessed 4410 of 5000 correctly for 88.2 % accuracy.
//
// A process of theirs is a rank here. TrainOptions::epoch_lines = false leaves out this library's
// own lines.
//
// Threads: as Observer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/base/topology.h"
#include "io/opener.h"
#include "trainer/observer.h"

namespace millrace::trainer {

struct XlaLinesOptions {
  Log log = {};
  Topology topology = {};
  std::vector<std::string> devices = {};  ///< their names, of this process
  std::int64_t epochs = 1;
  /// Where trn_losses.npy and val_losses.npy (float64, one number an epoch) and step_losses.npy
  /// (one a step) are written after every epoch; a resumed run continues them. Empty: nowhere.
  std::string folder = {};
  /// Reads and writes them; borrowed. Required with a folder.
  const io::Opener* opener = nullptr;
};

class XlaLines final : public Observer {
 public:
  explicit XlaLines(XlaLinesOptions options) : options_(std::move(options)) {}

  void on_fit_start() override;
  void on_epoch_start(std::int64_t epoch) override;
  void on_step_start(const StepStart& step) override;
  void on_step(const StepEvent& event) override;
  void on_log_step(const StepEvent& event) override;
  void on_evaluation_start(std::int64_t epoch) override;
  void on_epoch_end(const EpochEvent& event) override;
  void on_fit_end(const EndEvent& event) override;

 private:
  void say_banner(std::int64_t epoch) const;
  void say_ranks() const;
  void say_counts(std::size_t rank, const RankEvaluation& evaluation) const;
  /// The numbers that an earlier run wrote, at most `count` of them.
  std::vector<double> earlier(const std::string& name, std::int64_t count) const;
  void write(const std::string& name, const std::vector<double>& values) const;

  XlaLinesOptions options_;
  bool begins_ = true;        ///< no epoch has begun yet
  bool epoch_begins_ = true;  ///< no step of it has
  std::vector<double> train_losses_;
  std::vector<double> val_losses_;
  std::vector<double> step_losses_;
  double train_seconds_ = 0;
  EpochEvent last_ = {};
};

}  // namespace millrace::trainer

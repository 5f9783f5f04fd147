// What a run leaves of its evaluations beside their measures, for its page: evaluation.json, of the
// last one, evaluation-best.json, of the best, and first-batch.json, pictures as the model sees
// them. Bounded: classes and samples by name are at most as many as a page has room for.
//
// Threads: free functions, and EvaluationFiles as trainer::Observer.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "io/base/log.h"
#include "pipeline/fields.h"
#include "tools/image_options.h"
#include "tools/report/run_record.h"
#include "tools/train/task_choice.h"
#include "trainer/evaluation_details.h"
#include "trainer/observer.h"

namespace millrace::tools {

/// trainer::kPlaceField for samples of these shards.
pipeline::FunctionField place_field(const std::vector<std::string>& shards);

/// What the numbers in an evaluation's details are called.
struct DetailNames {
  std::vector<std::string> classes = {};  ///< by number; empty: numbers alone
  std::vector<decode::RgbColour> palette = {};
  std::vector<std::string> shards = {};  ///< as place_field() was given
};
/// `classes`: names by number where the task has none of its own.
DetailNames detail_names(const TaskChoice& task, std::int64_t outputs,
                         std::vector<std::string> classes, std::vector<std::string> shards);

/// An evaluation's details as tools/report/evaluation.h reads them; `what` begins it: {"epoch": 3}.
RecordJson details_json(const trainer::EvaluationDetails& details, const DetailNames& names,
                        RecordJson what);

/// Writes first-batch.json into `folder`, of the batch that it is called with: its first pictures
/// with their keys, as they were before normalisation. None where the host has no pixels.
std::function<void(const pipeline::Batch&)> first_batch_file(const std::string& folder,
                                                             const ImageOptions& images,
                                                             const Log& log);

struct EvaluationFilesOptions {
  std::string folder = {};  ///< empty, or a url: nothing is written
  Log log = {};
  DetailNames names = {};
};

class EvaluationFiles final : public trainer::Observer {
 public:
  /// `objective` is borrowed.
  EvaluationFiles(const trainer::DetailedObjective& objective, EvaluationFilesOptions options);

  void on_evaluation_end(const trainer::EpochEvent& event) override;
  void on_epoch_end(const trainer::EpochEvent& event) override;

 private:
  void write(const std::string& name) const;

  const trainer::DetailedObjective& objective_;
  EvaluationFilesOptions options_;
  std::string text_;  ///< of the last evaluation; empty: none, or nothing was found
};

/// Writes a file of a run's folder, which is local. What is wrong with it is logged: a run does not
/// fail for its page.
void write_beside_run(const std::string& folder, const std::string& name, const std::string& text,
                      const Log& log);

}  // namespace millrace::tools

// RunObjective: a task's losses and measures, evaluated by the views of --views, and with what
// evaluations find in detail, where a page or file tells of it.
//
//   const RunObjective objective(choice.task.objective(choice.classes), views, has_page);
//   fit({.model = model, .objective = objective.scored(), ...}, options);
//   details_json(objective.details(), ...);
//
// Threads: as Objective.
#pragma once

#include <memory>
#include <utility>

#include "tools/train/view_objective.h"
#include "trainer/evaluation_details.h"
#include "trainer/objective.h"

namespace millrace::tools {

class RunObjective {
 public:
  RunObjective(std::unique_ptr<const trainer::Objective> losses, EvaluationViews views,
               bool has_details, trainer::DetailOptions details = {})
      : losses_(std::move(losses)),
        viewed_(*losses_, views),
        detailed_(viewed_, std::move(details)),
        has_details_(has_details) {}
  RunObjective(const RunObjective&) = delete;
  RunObjective& operator=(const RunObjective&) = delete;

  const trainer::Objective& scored() const {
    return has_details_ ? static_cast<const trainer::Objective&>(detailed_) : viewed_;
  }
  /// What scored() keeps the details in, if it has any.
  const trainer::DetailedObjective& detailed() const { return detailed_; }

 private:
  std::unique_ptr<const trainer::Objective> losses_;
  ViewObjective viewed_;
  trainer::DetailedObjective detailed_;
  bool has_details_;
};

}  // namespace millrace::tools

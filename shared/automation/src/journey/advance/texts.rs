//! What steps say in texts with templates, within what one turn of a run may cost: whoever records waits for it.

use serde_json::{Map, Value, json};

use super::super::program::Instruction;
use super::super::{Did, NeedsPerson, Run, RunStatus};
use super::Walk;
use template::{Limit, Limits};

/// For all texts of one turn together: about 4 ms, and no more data than messages of the broker hold. Counted and not
/// timed, so that a repeated turn ends as the first did.
pub(super) const LIMITS: Limits = Limits { output: 256 * 1024, iterations: 20_000, work: 2_000_000 };

/// Why a run ended whose texts cost more.
const TOO_COSTLY: &str = "rendering_limit";

impl Walk<'_> {
    /// Fills in what a step says. Where that costs more than is left, the run ends as failed, and none is returned.
    pub(super) fn fill<T>(
        &mut self,
        at: &Instruction,
        render: impl FnOnce(&Value, &mut Limits) -> Result<T, Limit>,
    ) -> Result<Option<T>, NeedsPerson> {
        let data = match self.data.take() {
            Some(data) => Ok(data),
            None => {
                let data = self.shown()?;
                self.limits.pay_for_copy(&data).map(|()| data)
            }
        };
        let filled = data.and_then(|data| {
            let filled = render(&data, &mut self.limits);
            self.data = Some(data);
            filled
        });
        if filled.is_err() {
            let mark = self.mark(&at.path, Did::Failed).why(TOO_COSTLY);
            self.marks.push(mark);
            self.end(RunStatus::Failed, Some(TOO_COSTLY));
        }
        Ok(filled.ok())
    }

    /// What templates see.
    fn shown(&self) -> Result<Value, NeedsPerson> {
        let user = self.person()?.shown();
        let trigger = self.run.trigger.clone();
        let properties = trigger.get("properties").cloned().unwrap_or_default();
        let steps = Value::Object(self.state.memory.steps.clone());
        let named = [("user", user), ("event", trigger), ("properties", properties), ("steps", steps)];
        Ok(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// What a webhook is told where its step does not say.
pub(super) fn about(data: &Value, run: Run<'_>, at: &Instruction) -> Value {
    let mut body = Map::new();
    body.insert("step".to_owned(), json!(at.name));
    body.insert("runId".to_owned(), json!(run.id));
    for field in ["user", "event", "steps"] {
        body.insert(field.to_owned(), data.get(field).cloned().unwrap_or_default());
    }
    Value::Object(body)
}

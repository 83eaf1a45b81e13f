//! Rendering of the templates in steps, within a limit per input: the recording transaction waits for it.

use serde_json::{Map, Value, json};

use super::super::program::Instruction;
use super::super::{LogAction, Run, RunStatus, UserRequired};
use super::Execution;
use template::{Limit, Limits};

/// Limits for all templates rendered for one input: about 4 ms, and at most the size of a broker message.
///
/// Work is counted rather than timed, so that a retry ends in the same way as the first attempt.
pub(super) const LIMITS: Limits = Limits { output: 256 * 1024, iterations: 20_000, work: 2_000_000 };

/// Reason of a run that failed because rendering exceeded the limits.
const RENDERING_LIMIT: &str = "rendering_limit";

impl Execution<'_> {
    /// Renders the templates of a step.
    ///
    /// Fails the run and returns `None` if the cost exceeds what is left of the limits.
    pub(super) fn render_step<T>(
        &mut self,
        at: &Instruction,
        render: impl FnOnce(&Value, &mut Limits) -> Result<T, Limit>,
    ) -> Result<Option<T>, UserRequired> {
        let data = match self.data.take() {
            Some(data) => Ok(data),
            None => {
                let data = self.template_data()?;
                self.limits.pay_for_copy(&data).map(|()| data)
            }
        };
        let filled = data.and_then(|data| {
            let filled = render(&data, &mut self.limits);
            self.data = Some(data);
            filled
        });
        if filled.is_err() {
            let entry = self.entry(&at.path, LogAction::Failed).why(RENDERING_LIMIT);
            self.log.push(entry);
            self.end(RunStatus::Failed, Some(RENDERING_LIMIT));
        }
        Ok(filled.ok())
    }

    /// Returns the data for templates.
    fn template_data(&self) -> Result<Value, UserRequired> {
        let user = self.user()?.shown();
        let trigger = self.run.trigger.clone();
        let properties = trigger.get("properties").cloned().unwrap_or_default();
        let steps = Value::Object(self.state.memory.steps.clone());
        let named = [("user", user), ("event", trigger), ("properties", properties), ("steps", steps)];
        Ok(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Returns the default body of a webhook.
pub(super) fn default_webhook_body(data: &Value, run: Run<'_>, at: &Instruction) -> Value {
    let mut body = Map::new();
    body.insert("step".to_owned(), json!(at.name));
    body.insert("runId".to_owned(), json!(run.id));
    for field in ["user", "event", "steps"] {
        body.insert(field.to_owned(), data.get(field).cloned().unwrap_or_default());
    }
    Value::Object(body)
}

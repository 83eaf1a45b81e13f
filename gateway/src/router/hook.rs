//! Addresses of webhooks to other systems.

/// What may be asked of endpoints and their deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook<'p> {
    List,
    Create,
    Get(&'p str),
    Update(&'p str),
    Delete(&'p str),
    Rotate(&'p str),
    Test(&'p str),
    ListDeliveries(&'p str),
    GetDelivery(&'p str, &'p str),
    Resend(&'p str, &'p str),
}

impl Hook<'_> {
    pub(super) fn pattern(self) -> &'static str {
        match self {
            Self::List | Self::Create => "/webhook-endpoints",
            Self::Get(_) | Self::Update(_) | Self::Delete(_) => "/webhook-endpoints/:id",
            Self::Rotate(_) => "/webhook-endpoints/:id/rotate",
            Self::Test(_) => "/webhook-endpoints/:id/test",
            Self::ListDeliveries(_) => "/webhook-endpoints/:id/deliveries",
            Self::GetDelivery(..) => "/webhook-endpoints/:id/deliveries/:delivery",
            Self::Resend(..) => "/webhook-endpoints/:id/deliveries/:delivery/resend",
        }
    }
}

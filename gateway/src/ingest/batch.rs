//! Parses the body of a batch in place: an unreadable item is an error of that item alone.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::MAX_ITEMS;
use super::item::{Item, Raw, ReadInPlace, body_error, fields};
use crate::http::error::ApiError;

/// An element of a batch of any JSON type.
#[derive(Default)]
struct Element<'a>(Raw<'a>);

impl<'de: 'a, 'a> ReadInPlace<'de> for Element<'a> {
    fn read<D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error> {
        self.0 = Some(<&'de RawValue>::deserialize(deserializer)?);
        Ok(())
    }
}

struct InPlace<'p, T>(&'p mut T);

impl<'de, T: ReadInPlace<'de>> DeserializeSeed<'de> for InPlace<'_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.read(deserializer)
    }
}

/// The body of a batch. An unreadable item does not affect the others.
#[derive(Debug)]
pub struct Batch<'a> {
    /// In the order of the body. An unreadable item is replaced by an empty one.
    pub items: Vec<Item<'a>>,
    /// Why an item cannot be read, by its index.
    pub unreadable: BTreeMap<usize, String>,
    pub sent_at: Raw<'a>,
}

fields!(BatchField { Batch: "batch", SentAt: "sentAt" | "sent_at" });

/// A batch with elements of type `T`, of which at most [`MAX_ITEMS`] are kept.
struct BatchBody<'a, T> {
    elements: Option<Elements<T>>,
    sent_at: Raw<'a>,
}

struct Elements<T> {
    kept: Vec<T>,
    total: usize,
}

impl<'de, T: ReadInPlace<'de>> Deserialize<'de> for Elements<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElementsVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: ReadInPlace<'de>> Visitor<'de> for ElementsVisitor<T> {
            type Value = Elements<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Elements<T>, A::Error> {
                let mut kept: Vec<T> = Vec::with_capacity(MAX_ITEMS);
                while kept.len() < MAX_ITEMS {
                    let at = kept.len();
                    kept.push(T::default());
                    if seq.next_element_seed(InPlace(&mut kept[at]))?.is_none() {
                        kept.truncate(at);
                        return Ok(Elements { total: at, kept });
                    }
                }
                let mut total = kept.len();
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    total += 1;
                }
                Ok(Elements { kept, total })
            }
        }
        deserializer.deserialize_seq(ElementsVisitor(std::marker::PhantomData))
    }
}

impl<'de: 'a, 'a, T: ReadInPlace<'de>> Deserialize<'de> for BatchBody<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BatchBodyVisitor<'a, T>(std::marker::PhantomData<(&'a (), T)>);
        impl<'de: 'a, 'a, T: ReadInPlace<'de>> Visitor<'de> for BatchBodyVisitor<'a, T> {
            type Value = BatchBody<'a, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BatchBody<'a, T>, A::Error> {
                let mut body = BatchBody { elements: None, sent_at: None };
                while let Some(field) = map.next_key()? {
                    match field {
                        BatchField::Batch => body.elements = Some(map.next_value()?),
                        BatchField::SentAt => {
                            body.sent_at = Some(map.next_value::<&'de RawValue>()?).filter(|r| r.get() != "null");
                        }
                        BatchField::Other => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(body)
            }
        }
        deserializer.deserialize_map(BatchBodyVisitor(std::marker::PhantomData))
    }
}

impl<'a> Batch<'a> {
    pub fn parse(text: &'a str) -> Result<Self, ApiError> {
        // Nearly always all items are objects. Only if that fails is the body parsed again, element by element.
        if let Ok(body) = serde_json::from_str::<BatchBody<'a, Item<'a>>>(text) {
            let sent_at = body.sent_at;
            return Ok(Self { items: body.into_elements()?, unreadable: BTreeMap::new(), sent_at });
        }
        let body: BatchBody<'a, Element<'a>> = serde_json::from_str(text).map_err(|e| batch_error(text, &e))?;
        let sent_at = body.sent_at;
        let (mut items, mut unreadable) = (Vec::new(), BTreeMap::new());
        for (index, element) in body.into_elements()?.into_iter().enumerate() {
            let text = element.0.map_or("null", RawValue::get);
            items.push(serde_json::from_str(text).unwrap_or_else(|e| {
                let is_object = text.starts_with('{');
                let why = if is_object { format!("cannot be read: {e}") } else { "must be an object".to_owned() };
                unreadable.insert(index, why);
                Item::default()
            }));
        }
        Ok(Self { items, unreadable, sent_at })
    }
}

impl<T> BatchBody<'_, T> {
    fn into_elements(self) -> Result<Vec<T>, ApiError> {
        let Some(elements) = self.elements else { return Err(ApiError::invalid("batch", "is required")) };
        if elements.total > MAX_ITEMS {
            let message = format!("has {} items, but the maximum is {MAX_ITEMS}; no item was accepted", elements.total);
            return Err(ApiError::invalid("batch", message));
        }
        Ok(elements.kept)
    }
}

fn batch_error(text: &str, error: &serde_json::Error) -> ApiError {
    if error.is_data() && text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        return ApiError::invalid("batch", format!("must be an array of at most {MAX_ITEMS} items"));
    }
    body_error(text, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_of_another_type_is_refused() {
        for (text, status) in
            [("", 400), ("nope", 400), ("[]", 400), ("\"x\"", 400), ("{\"event\":}", 400), ("{} x", 400)]
        {
            assert_eq!(Item::single(text).unwrap_err().status().as_u16(), status, "{text}");
            assert_eq!(Batch::parse(text).unwrap_err().status().as_u16(), status, "{text}");
        }
        for text in ["{}", r#"{"batch":1}"#, r#"{"batch":{}}"#, r#"{"batch":null}"#, r#"{"batch":"[]"}"#] {
            assert_eq!(Batch::parse(text).unwrap_err().status().as_u16(), 422, "{text}");
        }
    }

    #[test]
    fn unreadable_item_does_not_affect_the_others() {
        let batch =
            Batch::parse(r#"{"sentAt":"s","batch":[{"type":"track"},7,1e999,null,[],{"\ud800":1},{"event":"e"}]}"#);
        let batch = batch.unwrap();
        assert_eq!(batch.items.len(), 7);
        assert_eq!(batch.unreadable.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!((batch.items[0].kind.unwrap().get(), batch.items[6].event.unwrap().get()), ("\"track\"", "\"e\""));
        assert_eq!(batch.sent_at.unwrap().get(), "\"s\"");
    }

    #[test]
    fn batch_over_the_maximum_is_refused() {
        let of =
            |n: usize| Batch::parse(&format!(r#"{{"batch":[{}]}}"#, vec!["{}"; n].join(","))).map(|b| b.items.len());
        assert_eq!(of(MAX_ITEMS).unwrap(), MAX_ITEMS);
        assert_eq!(of(0).unwrap(), 0);
        let error = of(MAX_ITEMS + 1).unwrap_err();
        assert_eq!((error.status().as_u16(), error.details()[0].field.as_str()), (422, "batch"));
    }
}

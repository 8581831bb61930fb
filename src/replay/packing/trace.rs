//! Nodes and pods, and the CSV format of the open GPU-sharing trace.

use std::collections::BTreeSet;

use engine::packing::{NodeKind, PlacementRequest, WHOLE};
use model::base::document::DocumentFault;

use crate::csv_table::CsvTable;

/// Largest accepted CPU, in thousandths of a core: a million cores.
const MOST_CPU: i64 = 1_000_000_000;

/// Largest accepted memory, in MiB: an exbibyte.
const MOST_MEMORY: i64 = 1 << 40;

/// Maximum number of devices of one node.
const MOST_DEVICES: i64 = 128;

/// A node of a trace and what it has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TraceNode {
    pub name: String,
    /// CPU, in thousandths of a core.
    pub cpu: i64,
    /// Memory of the node, MiB.
    pub memory: i64,
    pub gpus: u32,
    /// Model of its GPUs.
    pub model: String,
}

impl TraceNode {
    /// What placement distinguishes it by.
    pub fn kind(&self) -> NodeKind {
        NodeKind {
            cpu: self.cpu,
            gpus: self.gpus,
            model: self.model.clone(),
        }
    }
}

/// A pod and its requests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TracePod {
    pub name: String,
    /// CPU, in thousandths of a core.
    pub cpu: i64,
    /// Requested memory of the pod, MiB.
    pub memory: i64,
    /// GPUs; 0 for a pod that needs none.
    pub gpus: u32,
    /// Share of each of those GPUs, in thousandths: 1 to 1,000; 0 without GPUs.
    pub milli: i32,
    /// Accepted GPU models, sorted; empty for any.
    pub models: Vec<String>,
}

impl TracePod {
    /// Total GPU request, in thousandths of a device.
    pub fn gpu(&self) -> i64 {
        i64::from(self.gpus) * i64::from(self.milli)
    }

    /// What placement goes by.
    pub fn request(&self) -> PlacementRequest {
        PlacementRequest {
            cpu: self.cpu,
            memory: self.memory,
            gpus: self.gpus,
            milli: self.milli,
            models: self.models.clone(),
        }
    }

    /// Size class for failure counts: `cpu`, `shared`, or the number of whole GPUs.
    pub fn size(&self) -> String {
        match (self.gpus, self.milli) {
            (0, _) => "cpu".to_owned(),
            (1, milli) if milli < WHOLE => "shared".to_owned(),
            (gpus, _) => gpus.to_string(),
        }
    }
}

/// Reads the nodes of a CSV with the columns `sn, cpu_milli, memory_mib, gpu, model`; `place` names it in faults.
///
/// # Errors
/// A column is missing, a field is invalid, or a name is duplicated.
pub fn nodes(text: &[u8], place: &str) -> Result<Vec<TraceNode>, DocumentFault> {
    let sheet = CsvTable::read(text, place)?;
    let name = sheet.column("sn")?;
    let cpu = sheet.column("cpu_milli")?;
    let memory = sheet.column("memory_mib")?;
    let gpus = sheet.column("gpu")?;
    let model = sheet.column("model")?;
    let mut seen = BTreeSet::new();
    let mut nodes = Vec::with_capacity(sheet.len());
    for row in sheet.rows() {
        if !seen.insert(row.text(name)) {
            return Err(row.fault(name, "appears twice; name each node once"));
        }
        nodes.push(TraceNode {
            name: row.text(name).to_owned(),
            cpu: row.whole(cpu, MOST_CPU)?,
            memory: row.whole(memory, MOST_MEMORY)?,
            gpus: row.whole(gpus, MOST_DEVICES)? as u32,
            model: row.text(model).to_owned(),
        });
    }
    Ok(nodes)
}

/// Reads the pods of a CSV with the columns `name, cpu_milli, memory_mib, num_gpu, gpu_milli` and, if some pods
/// accept certain models only, `gpu_spec` (`A|B`); `place` names it in faults.
///
/// # Errors
/// A column is missing or a field is invalid.
pub fn pods(text: &[u8], place: &str) -> Result<Vec<TracePod>, DocumentFault> {
    let sheet = CsvTable::read(text, place)?;
    let name = sheet.column("name")?;
    let cpu = sheet.column("cpu_milli")?;
    let memory = sheet.column("memory_mib")?;
    let count = sheet.column("num_gpu")?;
    let part = sheet.column("gpu_milli")?;
    let spec = sheet.optional("gpu_spec")?;
    let mut pods = Vec::with_capacity(sheet.len());
    for row in sheet.rows() {
        let gpus = row.whole(count, MOST_DEVICES)? as u32;
        let milli = row.whole(part, i64::from(WHOLE))? as i32;
        match (gpus, milli) {
            (0, 1..) => {
                return Err(row.fault(part, "is set without a GPU; set it to 0, or num_gpu to 1"));
            }
            (1.., 0) => {
                return Err(row.fault(
                    part,
                    "requests nothing of its GPU; set it to 1 to 1000, or num_gpu to 0",
                ));
            }
            _ => {}
        }
        let models: BTreeSet<&str> = spec
            .map_or("", |spec| row.text(spec))
            .split('|')
            .map(str::trim)
            .filter(|model| !model.is_empty())
            .collect();
        pods.push(TracePod {
            name: row.text(name).to_owned(),
            cpu: row.whole(cpu, MOST_CPU)?,
            memory: row.whole(memory, MOST_MEMORY)?,
            gpus,
            milli,
            models: models.into_iter().map(str::to_owned).collect(),
        });
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_titles() {
        let read = nodes(
            b"model,sn,gpu,memory_mib,cpu_milli\nT4,n1,2,4096,8000\n",
            "n.csv",
        );
        let node = TraceNode {
            name: "n1".into(),
            cpu: 8_000,
            memory: 4_096,
            gpus: 2,
            model: "T4".into(),
        };
        assert_eq!(read, Ok(vec![node]));
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n\
                    a,1000,64,1,460,V100M32|T4|,BE\nb,500,32,0,0,,LS\n";
        let read = pods(text.as_bytes(), "p.csv").expect("is right");
        assert_eq!(read[0].models, ["T4", "V100M32"]);
        assert_eq!((read[0].gpu(), read[1].gpu()), (460, 0));
        assert_eq!(
            (read[0].size(), read[1].size()),
            ("shared".into(), "cpu".into())
        );
        let bare = pods(
            b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,8,1000\n",
            "p.csv",
        );
        assert_eq!(bare.expect("is right")[0].size(), "8");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
        for (row, expected) in [
            (
                "a,1,1,0,5",
                "p.csv:2: gpu_milli: `5` is set without a GPU; set it to 0, or num_gpu to 1",
            ),
            (
                "a,1,1,1,0",
                "p.csv:2: gpu_milli: `0` requests nothing of its GPU; set it to 1 to 1000, or num_gpu to 0",
            ),
            (
                "a,1,1,1,1001",
                "p.csv:2: gpu_milli: `1001` is above the maximum, 1000",
            ),
        ] {
            let fault = pods(format!("{head}{row}\n").as_bytes(), "p.csv").expect_err(row);
            assert_eq!(fault.to_string(), expected);
        }
        let twice = b"sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1,T4\nn,1,1,1,T4\n";
        assert_eq!(
            nodes(twice, "n.csv").expect_err("stands twice").to_string(),
            "n.csv:3: sn: `n` appears twice; name each node once"
        );
    }
}

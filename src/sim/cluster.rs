//! The running simulated cluster: a world, the store of its objects, its users, its faults and its clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::audit::Audit;
use super::change::{Request, Resource, SimBackend, WorldChange};
use super::faults::{FaultAction, InjectedFaults};
use super::field_owners::FieldOwners;
use super::json::{name, namespace};
use super::store::ObjectStore;
use super::users::Users;
use model::base::{Moment, ObjectKey};

/// The real clock, injected: no code in this directory reads the system clock.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// The mutable state: the world and the store, behind one lock that is never kept across an await.
pub struct Core {
    pub store: ObjectStore,
    /// The world that produces the objects.
    pub world: Box<dyn SimBackend>,
    /// The field managers of applied objects.
    pub owners: FieldOwners,
    /// How many objects clients have created; seeds their uids and generated names.
    serial: u64,
    seed: u64,
}

/// A simulated cluster. Shared by every service, watcher and server.
pub struct SimCluster {
    core: Mutex<Core>,
    /// Counts batches of changes and ticks of the clock; watchers and followers wait on it.
    beat: watch::Sender<u64>,
    faults: watch::Sender<InjectedFaults>,
    closed: watch::Sender<bool>,
    audit: Mutex<Audit>,
    users: Users,
    clock: Clock,
    /// The real and the virtual time at which the cluster started.
    origin: (Moment, Moment),
    speed: f64,
    /// Interval of bookmarks for watches that requested them, in milliseconds.
    bookmarks: AtomicU64,
}

impl Core {
    /// Passes a request to the world and stores the changes that it returns. If the world returns no change of the object
    /// itself, the request is stored as sent.
    pub fn carry_out(&mut self, request: Request) {
        let (resource, key, fallback) = match &request {
            Request::Write(resource, object) => {
                let key = ObjectKey::new(namespace(object), name(object));
                (*resource, key, WorldChange::Put(*resource, object.clone()))
            }
            Request::Delete(resource, key, _) => (
                *resource,
                key.clone(),
                WorldChange::Remove(*resource, key.clone()),
            ),
        };
        let mut changes = self.world.request(request);
        let includes_it = changes.iter().any(|change| match change {
            WorldChange::Put(r, object) => {
                *r == resource && name(object) == &*key.name && namespace(object) == &*key.namespace
            }
            WorldChange::Remove(r, k) => *r == resource && *k == key,
        });
        if !includes_it {
            changes.insert(0, fallback);
        }
        self.store.apply(changes);
    }

    /// A serial number that no earlier client object had; the same in every run with one seed.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The uid of the client's object with this serial.
    pub fn uid(&self, serial: u64) -> String {
        // Two rounds of a mixing function give 128 bits that look like a version 4 uuid.
        let mix = |mut x: u64| {
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        };
        let high = mix(self
            .seed
            .wrapping_add(serial.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let low = mix(high ^ serial.rotate_left(32));
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff
        )
    }
}

impl SimCluster {
    /// Starts a cluster on a world: stores its first objects and runs its clock at `speed` virtual seconds per second
    /// (0 stops it). The world's current time becomes the clock's origin.
    pub fn start(
        mut world: Box<dyn SimBackend>,
        users: impl FnOnce(&ObjectStore) -> Users,
        clock: Clock,
        speed: f64,
        seed: u64,
        retention: usize,
    ) -> Arc<Self> {
        let mut store = ObjectStore::new(retention);
        store.apply(world.start());
        // No watch can resume from before the start.
        store.forget();
        let users = users(&store);
        let origin = (clock(), world.now());
        Arc::new(Self {
            core: Mutex::new(Core {
                store,
                world,
                owners: FieldOwners::default(),
                serial: 0,
                seed,
            }),
            beat: watch::Sender::new(0),
            faults: watch::Sender::new(InjectedFaults::default()),
            closed: watch::Sender::new(false),
            audit: Mutex::default(),
            users,
            clock,
            origin,
            speed,
            bookmarks: AtomicU64::new(60_000),
        })
    }

    /// The world and the store, locked.
    pub fn core(&self) -> MutexGuard<'_, Core> {
        // A panic under the lock has been reported already, and the store still holds complete objects.
        self.core
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The audit log of the clients' requests, locked.
    pub fn audit(&self) -> MutexGuard<'_, Audit> {
        self.audit
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn now(&self) -> Moment {
        self.core().world.now()
    }

    /// The real clock that drives the virtual one.
    pub fn machine_clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Interval of bookmarks for watches that requested them: one minute, as on a real server, unless set.
    pub fn bookmark_every(&self) -> Duration {
        Duration::from_millis(self.bookmarks.load(Ordering::Relaxed).max(1))
    }

    /// Sets the bookmark interval of watches that begin from now on.
    pub fn set_bookmark_every(&self, every: Duration) {
        let millis = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        self.bookmarks.store(millis, Ordering::Relaxed);
    }

    /// The users and their rights.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Advances the world to the virtual time that corresponds to the real clock, and notifies watchers.
    pub fn tick(&self) {
        let (real, begun) = self.origin;
        let passed = (self.clock)().since(real).millis() as f64 * self.speed;
        if passed >= 1.0 {
            self.advance(begun.plus(Duration::from_millis(passed as u64)));
        }
    }

    /// Moves the virtual clock to `to` (never back), and notifies watchers.
    pub fn advance(&self, to: Moment) {
        {
            let mut core = self.core();
            if to <= core.world.now() {
                return;
            }
            let changes = core.world.advance(to);
            core.store.apply(changes);
        }
        self.announce();
    }

    /// Notifies watchers that something may have changed.
    pub fn announce(&self) {
        self.beat.send_modify(|beat| *beat += 1);
    }

    /// Signals each batch of changes and each tick.
    pub fn beats(&self) -> watch::Receiver<u64> {
        self.beat.subscribe()
    }

    /// The faults in effect.
    pub fn faults(&self) -> InjectedFaults {
        self.faults.borrow().clone()
    }

    pub fn set_faults(&self, faults: InjectedFaults) {
        self.faults.send_replace(faults);
    }

    /// Signals each change of the faults.
    pub fn fault_changes(&self) -> watch::Receiver<InjectedFaults> {
        self.faults.subscribe()
    }

    /// Decides how the next request is answered under the current faults.
    pub fn judge(&self) -> FaultAction {
        let mut verdict = FaultAction::Serve;
        // A countdown is not a change of the faults: no notification.
        self.faults.send_if_modified(|faults| {
            verdict = faults.judge();
            false
        });
        verdict
    }

    /// True when the next watch from a revision must answer 410.
    pub fn judge_watch(&self) -> bool {
        let mut expired = false;
        self.faults.send_if_modified(|faults| {
            expired = faults.judge_watch();
            false
        });
        expired
    }

    /// Waits until the fault that silences the server ends.
    pub async fn heard_again(&self) {
        // The sender lives as long as the cluster, so this wait ends with the fault.
        let _ = self
            .faults
            .subscribe()
            .wait_for(|faults| !faults.silent)
            .await;
    }

    /// Ends every watch and every log follower.
    pub fn close(&self) {
        self.closed.send_replace(true);
        self.announce();
    }

    /// Turns true when the cluster closes.
    pub fn closing(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }

    /// An object, if it exists.
    pub fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.core().store.get(resource, namespace, name)
    }
}
